{{/* Names, labels and images. The components are gateway, runner, plugin-host, migrate, test, postgresql, redis. */}}

{{- define "codedock.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "codedock.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "codedock.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What Services and policies select by; never changed, since a Deployment's selector cannot be. Takes (list root component). */}}
{{- define "codedock.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "codedock.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of an object. Takes (list root component). */}}
{{- define "codedock.labels" -}}
{{- $root := index . 0 -}}
{{ include "codedock.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: codedock
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Metadata of an object. Takes (dict "root" "component" "name" "labels" "annotations"); the last two may be absent. */}}
{{- define "codedock.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "codedock.labels" (list .root .component) | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (deepCopy (default dict .annotations)) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* An image. Takes (list root image). */}}
{{- define "codedock.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $repository := $image.repository -}}
{{- with $root.Values.image.registry }}{{- $repository = printf "%s/%s" (trimSuffix "/" .) $repository -}}{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (coalesce $image.tag $root.Values.image.tag $root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Full name of a Service in the cluster's DNS. Takes (list root service). */}}
{{- define "codedock.serviceHost" -}}
{{- $root := index . 0 -}}
{{- printf "%s.%s.svc.%s" (index . 1) $root.Release.Namespace $root.Values.clusterDomain -}}
{{- end -}}

{{/* Where a service listens inside its pod. Takes (list root port). */}}
{{- define "codedock.listen" -}}
{{- $host := (index . 0).Values.listenHost -}}
{{- printf "%s:%v" (contains ":" $host | ternary (printf "[%s]" $host) $host) (index . 1) -}}
{{- end -}}

{{/* Takes (list root component settings). */}}
{{- define "codedock.serviceAccountName" -}}
{{- $account := (index . 2).serviceAccount -}}
{{- if $account.create -}}
{{- default (printf "%s-%s" (include "codedock.fullname" (index . 0)) (index . 1)) $account.name -}}
{{- else -}}
{{- default "default" $account.name -}}
{{- end -}}
{{- end -}}
