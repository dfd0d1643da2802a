{{/* What install-plugins.mjs reads: sources and what is laid over each plugin.json. Takes root. */}}
{{- define "codedock.pluginPlan" -}}
{{- $plugins := .Values.plugins -}}
{{- $images := list -}}
{{- $manifests := deepCopy $plugins.manifests -}}
{{- range $plugins.fromImages -}}
  {{- $name := .name -}}
  {{- $from := printf "/plugins/incoming/%s" .name -}}
  {{- if eq (default "copy" .method) "volume" -}}
    {{- $from = printf "/plugin-images/%s/%s" .name (trimAll "/" .path) | trimSuffix "/" -}}
  {{- end -}}
  {{- /* The image is here so that a new one changes the pods' checksum and they are replaced. */ -}}
  {{- $images = append $images (dict "name" .name "from" $from "image" .image) -}}
  {{- with .manifest }}{{- $_ := set $manifests $name . }}{{- end -}}
{{- end -}}
{{- dict "plugins" $images "volume" ($plugins.fromVolume | empty | ternary "" "/plugin-volume") "manifests" $manifests "into" "/plugins/installed" | mustToPrettyJson -}}
{{- end -}}
