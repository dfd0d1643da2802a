{{/* How fast autoscalers go. Takes what the values say. */}}

{{- define "codedock.behavior" -}}
{{- if . -}}
{{- toYaml . -}}
{{- else -}}
scaleUp:
  stabilizationWindowSeconds: 0
  policies:
    - {type: Percent, value: 100, periodSeconds: 30}
    - {type: Pods, value: 4, periodSeconds: 30}
  selectPolicy: Max
scaleDown:
  stabilizationWindowSeconds: 300
  policies:
    - {type: Percent, value: 25, periodSeconds: 60}
    - {type: Pods, value: 1, periodSeconds: 60}
  selectPolicy: Max
{{- end -}}
{{- end -}}
