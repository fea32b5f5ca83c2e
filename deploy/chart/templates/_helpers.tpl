{{- define "openpai.labels" -}}
app.kubernetes.io/name: openpai
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "openpai.selector" -}}
app.kubernetes.io/name: openpai
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "openpai.name" -}}
{{- if contains "openpai" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-openpai" (.Release.Name | trunc 42 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "openpai.hasDatabase" -}}
{{- if or .Values.postgresql.enabled .Values.database.existingSecret }}yes{{ end }}
{{- end }}

{{- define "openpai.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not (include "openpai.hasDatabase" .)) }}
{{- fail (printf "%d replicas need PostgreSQL: set database.existingSecret, or postgresql.enabled=true" (int .Values.replicas)) }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (not .Values.storage.existingClaim) (not (has "ReadWriteMany" .Values.storage.accessModes)) }}
{{- fail (printf "%d replicas share their logs: set storage.accessModes={ReadWriteMany} and a storage class that has it" (int .Values.replicas)) }}
{{- end }}
{{- if and .Values.postgresql.enabled .Values.database.existingSecret }}
{{- fail "set either postgresql.enabled or database.existingSecret" }}
{{- end }}
{{- if and .Values.frameworks.enabled (not .Values.frameworks.namespaces) }}
{{- fail "frameworks.enabled needs frameworks.namespaces: whose Frameworks become whose jobs" }}
{{- end }}
{{- if and .Values.frameworks.enabled (not .Values.frameworks.tokensSecret) }}
{{- fail "frameworks.enabled needs frameworks.tokensSecret: a secret with the token of each user" }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}
{{- fail "ingress.enabled needs ingress.host" }}
{{- end }}
{{- if and .Values.applications.host (gt (int .Values.replicas) 1) }}
{{- fail "applications.host needs replicas=1: only the server that leads reaches tasks, and a Service does not know it" }}
{{- end }}
{{- end }}
