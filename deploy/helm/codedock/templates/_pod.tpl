{{/* What the pods of all services have in common. */}}

{{/* Settings of a pod. Takes (list root component settings). */}}
{{- define "codedock.podSettings" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $settings := index . 2 -}}
serviceAccountName: {{ include "codedock.serviceAccountName" . }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $root.Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $settings.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $settings.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with $settings.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $settings.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $settings.affinity }}
affinity:
  {{- toYaml $settings.affinity | nindent 2 }}
{{- else if eq $component "plugin-host" }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "codedock.selector" (list $root $component) | nindent 14 }}
{{- end }}
{{- if kindIs "slice" $settings.topologySpreadConstraints }}
{{- with $settings.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- else }}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        {{- include "codedock.selector" (list $root $component) | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Metadata of pods. Takes (dict "root" "component" "labels" "annotations"). */}}
{{- define "codedock.podMetadata" -}}
labels:
  {{- include "codedock.selector" (list .root .component) | nindent 2 }}
  app.kubernetes.io/part-of: codedock
  {{- with .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (deepCopy (default dict .annotations)) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Environment of a service, without the part that only one of them has. Takes (list root component settings). */}}
{{- define "codedock.commonEnv" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $settings := index . 2 -}}
{{- $v := $root.Values -}}
{{- include "codedock.secretEnv" (list $root $component) }}
- name: CODEDOCK_LOG_LEVEL
  value: {{ $v.log.level }}
- name: CODEDOCK_LOG_FORMAT
  value: {{ $v.log.format }}
- name: PLUGIN_RPC_TIMEOUT
  value: {{ $v.gates.rpcTimeout }}
- name: PLUGIN_GATE_TIMEOUT
  value: {{ $v.gates.gateTimeout }}
{{- if $v.pluginHost.enabled }}
- name: CODEDOCK_TLS_CA_FILE
  value: /etc/codedock/tls/ca.crt
- name: CODEDOCK_TLS_CERT_FILE
  value: /etc/codedock/tls/tls.crt
- name: CODEDOCK_TLS_KEY_FILE
  value: /etc/codedock/tls/tls.key
{{- end }}
{{- with $v.telemetry.otlp }}
{{- if .endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ .endpoint | quote }}
{{- with .protocol }}
- name: OTEL_EXPORTER_OTLP_PROTOCOL
  value: {{ . }}
{{- end }}
{{- if .headersSecret }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom:
    secretKeyRef: {name: {{ .headersSecret }}, key: {{ .headersKey }}}
{{- end }}
{{- end }}
{{- end }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: {{ printf "k8s.namespace.name=%s,k8s.pod.name=$(POD_NAME),k8s.node.name=$(NODE_NAME),service.instance.id=$(POD_NAME)" $root.Release.Namespace }}
  {{- range $name, $value := $v.telemetry.resourceAttributes }},{{ $name }}={{ $value }}{{ end }}
{{- range $name, $value := $v.telemetry.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $value := $settings.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- with $settings.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Environment of those who ask the model provider. Takes root. */}}
{{- define "codedock.providerEnv" -}}
{{- with .Values.openai.baseUrl }}
- name: OPENAI_BASE_URL
  value: {{ . | quote }}
{{- end }}
{{- if .Values.openai.allowPrivate }}
- name: CODEDOCK_PROVIDER_ALLOW_PRIVATE
  value: "true"
{{- end }}
{{- end -}}

{{/* Where gates are asked. Takes root. */}}
{{- define "codedock.pluginHostEnv" -}}
{{- if .Values.pluginHost.enabled }}
- name: PLUGIN_HOST_URL
  value: {{ include "codedock.serviceHost" (list . (printf "%s-plugin-host" (include "codedock.fullname" .))) }}:7070
{{- end }}
{{- end -}}

{{/* Mounts of a service. Takes (list root component settings). */}}
{{- define "codedock.commonMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if index (include "codedock.secretVariables" . | fromYaml) (index . 1) }}
- name: secrets
  mountPath: /etc/codedock/secrets
  readOnly: true
{{- end }}
{{- if (index . 0).Values.pluginHost.enabled }}
- name: tls
  mountPath: /etc/codedock/tls
  readOnly: true
{{- end }}
{{- with (index . 2).extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Volumes of a service. Takes (list root component settings). */}}
{{- define "codedock.commonVolumes" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
- name: tmp
  emptyDir: {}
{{- if index (include "codedock.secretVariables" . | fromYaml) $component }}
{{ include "codedock.secretVolume" (list $root $component) }}
{{- end }}
{{- if $root.Values.pluginHost.enabled }}
- name: tls
  secret:
    secretName: {{ include "codedock.tlsSecret" (list $root $component) }}
    defaultMode: 0440
{{- end }}
{{- with (index . 2).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The three probes. Takes (list settings port). */}}
{{- define "codedock.probes" -}}
{{- $probes := (index . 0).probes -}}
{{- $port := index . 1 -}}
startupProbe:
  {{- merge (dict "httpGet" (dict "path" "/healthz" "port" $port)) $probes.startup | toYaml | nindent 2 }}
livenessProbe:
  {{- merge (dict "httpGet" (dict "path" "/healthz" "port" $port)) $probes.liveness | toYaml | nindent 2 }}
readinessProbe:
  {{- merge (dict "httpGet" (dict "path" "/readyz" "port" $port)) $probes.readiness | toYaml | nindent 2 }}
{{- end -}}

{{/* Waits before SIGTERM. Kubernetes below 1.30 has no `sleep` of its own. Takes (list root seconds). */}}
{{- define "codedock.preStop" -}}
{{- $seconds := int (index . 1) -}}
{{- if $seconds }}
lifecycle:
  preStop:
  {{- if semverCompare ">=1.30.0-0" (index . 0).Capabilities.KubeVersion.Version }}
    sleep: {seconds: {{ $seconds }}}
  {{- else }}
    exec: {command: [node, -e, {{ printf "setTimeout(() => {}, %d000)" $seconds | quote }}]}
  {{- end }}
{{- end }}
{{- end -}}

{{/*
`replicas` of a Deployment, and nothing where an autoscaler counts. One exception: as long as Helm owns the field, because
the count was fixed before, leaving it out would take the count to 1; then the present one is kept. Helm's client-side
apply owns what it ever wrote, its server-side apply says so in `managedFields`. Takes (list root name scaling).
*/}}
{{- define "codedock.replicas" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $scaling := index . 2 -}}
{{- if eq $scaling.mode "fixed" -}}
replicas: {{ $scaling.replicas }}
{{- else -}}
{{- if gt (int $scaling.minReplicas) (int $scaling.maxReplicas) -}}
{{- fail (printf "%s: scaling.minReplicas (%v) is above scaling.maxReplicas (%v)." $name $scaling.minReplicas $scaling.maxReplicas) -}}
{{- end -}}
{{- $live := lookup "apps/v1" "Deployment" $root.Release.Namespace $name -}}
{{- if $live -}}
{{- $applied := false -}}
{{- $owned := false -}}
{{- range $live.metadata.managedFields -}}
{{- if and (eq .operation "Apply") (not .subresource) -}}
{{- $applied = true -}}
{{- if hasKey (default dict (index (default dict .fieldsV1) "f:spec")) "f:replicas" -}}{{- $owned = true -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if or $owned (not $applied) -}}
replicas: {{ $live.spec.replicas }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The container that brings the database up to date. Takes root. */}}
{{- define "codedock.migrateContainer" -}}
{{- $v := .Values -}}
name: migrate
image: {{ include "codedock.image" (list . $v.migrations.image) }}
imagePullPolicy: {{ $v.image.pullPolicy }}
securityContext:
  {{- toYaml $v.securityContext | nindent 2 }}
env:
  {{- include "codedock.secretEnv" (list . "migrate") | trim | nindent 2 }}
  {{- with $v.migrations.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $v.migrations.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: secrets, mountPath: /etc/codedock/secrets, readOnly: true}
  {{- with $v.migrations.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "codedock.jobPod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
restartPolicy: Never
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.migrations.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.migrations.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
