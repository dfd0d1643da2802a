{{/* Parts of the network policies. */}}

{{- define "codedock.ports" -}}
ports:
  {{- range . }}
  - {protocol: TCP, port: {{ . }}}
  {{- end }}
{{- end -}}

{{- define "codedock.egressTo" -}}
{{- $peers := index . 0 -}}
- {{ with $peers }}to:
    {{- toYaml . | nindent 4 }}
  {{ end }}{{ include "codedock.ports" (index . 1) | nindent 2 | trim }}
{{- end -}}

{{- define "codedock.peer" -}}
podSelector:
  matchLabels:
    {{- include "codedock.selector" . | nindent 4 }}
{{- end -}}

{{- define "codedock.dnsEgress" -}}
- ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{- end -}}

{{- define "codedock.serviceEgress" -}}
{{- $policy := .Values.networkPolicy -}}
{{ include "codedock.dnsEgress" . }}
{{ include "codedock.databaseEgress" . }}
{{- if or .Values.queue.existingSecret .Values.queue.url .Values.dev.enabled }}
{{ include "codedock.egressTo" (list $policy.queueTo $policy.queuePorts) }}
{{- end }}
{{ include "codedock.egressTo" (list $policy.providerTo $policy.providerPorts) }}
{{- if .Values.telemetry.otlp.endpoint }}
{{ include "codedock.egressTo" (list $policy.otlpTo $policy.otlpPorts) }}
{{- end }}
{{- if .Values.pluginHost.enabled }}
- to:
    - {{- include "codedock.peer" (list . "plugin-host") | nindent 6 }}
  {{- include "codedock.ports" (list "grpc") | nindent 2 }}
{{- end }}
{{- with $policy.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "codedock.databaseEgress" -}}
{{ include "codedock.egressTo" (list .Values.networkPolicy.databaseTo .Values.networkPolicy.databasePorts) }}
{{- end -}}
