{{/*
Which secret each variable comes from. Services read them from files, so that none is in an environment, an argument or a
ConfigMap. Everything here answers YAML.
*/}}

{{/* Takes root. {DATABASE_URL: {name, key}, …}: what is configured, and nothing else. */}}
{{- define "codedock.secretRefs" -}}
{{- $v := .Values -}}
{{- $full := include "codedock.fullname" . -}}
{{- $own := printf "%s-secrets" $full -}}
{{- $keys := default (printf "%s-keys" $full) $v.keys.existingSecret -}}
{{- $refs := dict
  "CODEDOCK_CAPABILITY_KEY" (dict "name" $keys "key" $v.keys.capabilityKeyKey)
  "CODEDOCK_SECRETS_KEY" (dict "name" $keys "key" $v.keys.secretsKeyKey) -}}
{{- with $v.keys.capabilityKeysAcceptedKey -}}
  {{- $_ := set $refs "CODEDOCK_CAPABILITY_KEYS_ACCEPTED" (dict "name" $keys "key" .) -}}
{{- end -}}
{{- with $v.keys.secretsKeysAcceptedKey -}}
  {{- $_ := set $refs "CODEDOCK_SECRETS_KEYS_ACCEPTED" (dict "name" $keys "key" .) -}}
{{- end -}}
{{- if $v.database.existingSecret -}}
  {{- $_ := set $refs "DATABASE_URL" (dict "name" $v.database.existingSecret "key" $v.database.urlKey) -}}
  {{- if $v.database.directUrlKey -}}
    {{- $_ := set $refs "DATABASE_DIRECT_URL" (dict "name" $v.database.existingSecret "key" $v.database.directUrlKey) -}}
  {{- end -}}
{{- else if $v.database.url -}}
  {{- $_ := set $refs "DATABASE_URL" (dict "name" $own "key" "DATABASE_URL") -}}
  {{- if $v.database.directUrl -}}
    {{- $_ := set $refs "DATABASE_DIRECT_URL" (dict "name" $own "key" "DATABASE_DIRECT_URL") -}}
  {{- end -}}
{{- else if $v.dev.enabled -}}
  {{- $_ := set $refs "DATABASE_URL" (dict "name" (printf "%s-dev" $full) "key" "DATABASE_URL") -}}
{{- else -}}
  {{- fail "No database: set database.existingSecret (a Secret with the PostgreSQL URL), or database.url, or dev.enabled=true for trying things out." -}}
{{- end -}}
{{- if $v.queue.existingSecret -}}
  {{- $_ := set $refs "QUEUE_URL" (dict "name" $v.queue.existingSecret "key" $v.queue.urlKey) -}}
{{- else if $v.queue.url -}}
  {{- $_ := set $refs "QUEUE_URL" (dict "name" $own "key" "QUEUE_URL") -}}
{{- else if $v.dev.enabled -}}
  {{- $_ := set $refs "QUEUE_URL" (dict "name" (printf "%s-dev" $full) "key" "QUEUE_URL") -}}
{{- end -}}
{{- if $v.openai.existingSecret -}}
  {{- $_ := set $refs "OPENAI_API_KEY" (dict "name" $v.openai.existingSecret "key" $v.openai.apiKeyKey) -}}
{{- else if $v.openai.apiKey -}}
  {{- $_ := set $refs "OPENAI_API_KEY" (dict "name" $own "key" "OPENAI_API_KEY") -}}
{{- end -}}
{{- $refs | toYaml -}}
{{- end -}}

{{/* Variables of a component. */}}
{{- define "codedock.secretVariables" -}}
gateway: [DATABASE_URL, DATABASE_DIRECT_URL, QUEUE_URL, OPENAI_API_KEY, CODEDOCK_CAPABILITY_KEY, CODEDOCK_SECRETS_KEY, CODEDOCK_CAPABILITY_KEYS_ACCEPTED, CODEDOCK_SECRETS_KEYS_ACCEPTED]
runner: [DATABASE_URL, DATABASE_DIRECT_URL, QUEUE_URL, OPENAI_API_KEY, CODEDOCK_CAPABILITY_KEY]
plugin-host: []
migrate: [DATABASE_URL, DATABASE_DIRECT_URL, QUEUE_URL]
first-key: [DATABASE_URL]
{{- end -}}

{{/* Environment: `<name>_FILE` of each. Takes (list root component). */}}
{{- define "codedock.secretEnv" -}}
{{- $refs := include "codedock.secretRefs" (index . 0) | fromYaml -}}
{{- range index (include "codedock.secretVariables" . | fromYaml) (index . 1) }}
{{- if hasKey $refs . }}
- name: {{ . }}_FILE
  value: /etc/codedock/secrets/{{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Volume with a file per secret variable. Takes (list root component), or (list root component secret): then what the chart
keeps itself is read from that Secret, since a hook runs before the Secrets of the release are there.
*/}}
{{- define "codedock.secretVolume" -}}
{{- $root := index . 0 -}}
{{- $refs := include "codedock.secretRefs" $root | fromYaml -}}
{{- $own := printf "%s-secrets" (include "codedock.fullname" $root) -}}
{{- $instead := gt (len .) 2 | ternary (last .) $own -}}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
    {{- range index (include "codedock.secretVariables" . | fromYaml) (index . 1) }}
    {{- $variable := . }}
    {{- with index $refs $variable }}
      - secret:
          name: {{ eq .name $own | ternary $instead .name }}
          items:
            - {key: {{ .key }}, path: {{ $variable }}}
    {{- end }}
    {{- end }}
{{- end -}}

{{/* Name of the Secret with a component's certificate. Takes (list root component). */}}
{{- define "codedock.tlsSecret" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- if eq $root.Values.tls.mode "existingSecrets" -}}
{{- $field := eq $component "plugin-host" | ternary "pluginHost" $component -}}
{{- required (printf "tls.existingSecrets.%s is not set: name the Secret with ca.crt, tls.crt and tls.key." $field) (index $root.Values.tls.existingSecrets $field) -}}
{{- else -}}
{{- printf "%s-%s-tls" (include "codedock.fullname" $root) $component -}}
{{- end -}}
{{- end -}}

{{/* DNS names of a component's certificate. Takes (list root component). */}}
{{- define "codedock.tlsNames" -}}
{{- $root := index . 0 -}}
{{- $service := eq (index . 1) "gateway" | ternary "host-api" (index . 1) -}}
{{- $name := printf "%s-%s" (include "codedock.fullname" $root) $service -}}
{{- list $name (printf "%s.%s" $name $root.Release.Namespace) (printf "%s.%s.svc" $name $root.Release.Namespace) (include "codedock.serviceHost" (list $root $name)) | toYaml -}}
{{- end -}}

{{/* Secret and key of the first API key. Takes root. */}}
{{- define "codedock.firstKeyRef" -}}
{{- if .Values.firstKey.existingSecret -}}
{name: {{ .Values.firstKey.existingSecret }}, key: {{ .Values.firstKey.secretKey }}}
{{- else -}}
{name: {{ include "codedock.fullname" . }}-first-key, key: CODEDOCK_API_KEY}
{{- end -}}
{{- end -}}
