{{- /* The name of all objects: the release's, with limitdb in it. */ -}}
{{- define "limitdb.name" -}}
{{- if contains "limitdb" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-limitdb" (.Release.Name | trunc 32 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- /* The labels by which pods are selected. They never change. */ -}}
{{- define "limitdb.selector" -}}
app.kubernetes.io/name: limitdb
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "limitdb.labels" -}}
{{ include "limitdb.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* The names of the pods, with blanks between them. */ -}}
{{- define "limitdb.pods" -}}
{{- range $i := until (int .Values.nodes) }}{{ if $i }} {{ end }}{{ include "limitdb.name" $ }}-{{ $i }}{{ end }}
{{- end }}
