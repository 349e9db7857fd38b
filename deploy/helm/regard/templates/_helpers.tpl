{{- define "regard.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-regard" .Release.Name) (contains "regard" .Release.Name) -}}
{{- default $name .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels that select the pods of one component; the dict has root and component. */}}
{{- define "regard.selector" -}}
app.kubernetes.io/name: regard
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "regard.labels" -}}
{{ include "regard.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "regard.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{/* A number without an exponent: Helm reads whole numbers of files as floats. */}}
{{- define "regard.scalar" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ printf "%.0f" . }}{{ else }}{{ toString . }}{{ end -}}
{{- end -}}

{{/* A setting in whole seconds, rounded up. */}}
{{- define "regard.seconds" -}}
{{ ceil (index .root.Values.settings .name) | int }}
{{- end -}}

{{/* preStop hook, drain delay, drain timeout, and 10 s to send traces and to close sockets. */}}
{{- define "regard.graceSeconds" -}}
{{- $delay := include "regard.seconds" (dict "root" . "name" "REGARD_DRAIN_DELAY_SECONDS") | int -}}
{{- $drain := include "regard.seconds" (dict "root" . "name" "REGARD_DRAIN_TIMEOUT_SECONDS") | int -}}
{{ add (int .Values.preStopSeconds) $delay $drain 10 }}
{{- end -}}

{{- define "regard.modelsFolder" -}}/var/lib/regard{{- end -}}
{{- define "regard.stateFolder" -}}/var/lib/regard-state{{- end -}}
{{- define "regard.manifestFolder" -}}/etc/regard/models{{- end -}}
{{- define "regard.keysFolder" -}}/etc/regard/keys{{- end -}}
{{- define "regard.manifestPath" -}}{{ include "regard.manifestFolder" . }}/models.toml{{- end -}}

{{- define "regard.secretName" -}}
{{ default (printf "%s-keys" (include "regard.fullname" .)) .Values.keys.existingSecret }}
{{- end -}}

{{/* Names of the entries of the Secret, separated by spaces; empty without a key. */}}
{{- define "regard.keyEntries" -}}
{{- if .Values.keys.existingSecret -}}
{{ join " " .Values.keys.entries }}
{{- else -}}
{{- with .Values.keys }}{{ if .apiKeys }}api-keys {{ end }}{{ if .adminKey }}admin-key {{ end }}{{ if .remoteKey }}remote-key{{ end }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "regard.modelsClaim" -}}
{{ default (printf "%s-models" (include "regard.fullname" .)) .Values.models.volume.existingClaim }}
{{- end -}}

{{- define "regard.stateClaim" -}}
{{ default (printf "%s-state" (include "regard.fullname" .)) .Values.state.volume.existingClaim }}
{{- end -}}

{{- define "regard.hasStateClaim" -}}
{{- if or .Values.state.volume.enabled .Values.state.volume.existingClaim }}true{{ end -}}
{{- end -}}

{{/* Refuses values that contradict each other. */}}
{{- define "regard.check" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) -}}
{{- $onePod := "set replicas to 1 and autoscaling.enabled to false, or leave" -}}
{{- if include "regard.hasStateClaim" . -}}
{{- fail (printf "state.volume is for one pod: %s state.volume out" $onePod) -}}
{{- end -}}
{{- range $name := list "REGARD_MONTHLY_CHARACTERS" "REGARD_SUGGESTIONS" -}}
{{- if index $.Values.settings $name -}}
{{- fail (printf "settings.%s needs one state, and each pod has its own: %s %s out. state.volume keeps the state of one pod" $name $onePod $name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.settings.REGARD_FILES (eq .Values.service.sessionAffinity "None") -}}
{{- fail (printf "settings.REGARD_FILES keeps each document on one pod: set service.sessionAffinity to ClientIP, so that each client reaches one pod; or %s REGARD_FILES out" $onePod) -}}
{{- end -}}
{{- end -}}
{{- $models := regexFindAll "(?m)^\\s*\\[\\[model\\]\\]" .Values.models.manifest -1 | len -}}
{{- $pinned := regexFindAll "(?m)^\\s*\\[model\\.sha256\\]" .Values.models.manifest -1 | len -}}
{{- if and .Values.models.manifest (or (eq $models 0) (ne $models $pinned)) -}}
{{- fail (printf "models.manifest has %d tables [[model]] and %d tables [model.sha256]; each model needs both. Write the manifest with: regard models info --toml" $models $pinned) -}}
{{- end -}}
{{- if and .Values.keys.existingSecret (or .Values.keys.apiKeys .Values.keys.adminKey .Values.keys.remoteKey) -}}
{{- fail "keys.existingSecret replaces keys.apiKeys, keys.adminKey and keys.remoteKey: leave these out" -}}
{{- end -}}
{{- range .Values.env -}}
{{- if hasPrefix "REGARD_" .name -}}
{{- fail (printf "env names %s: write the settings of the server below settings, and the keys below keys" .name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas exceeds autoscaling.maxReplicas" -}}
{{- end -}}
{{- end -}}

{{- define "regard.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "regard.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The parts of a pod that the server and the Job share. */}}
{{- define "regard.podBase" -}}
automountServiceAccountToken: false
# Variables of Services would collide with settings: a Service "regard" sets REGARD_PORT.
enableServiceLinks: false
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext: {{- include "regard.podSecurity" . | nindent 2 }}
{{- end -}}

{{- define "regard.containerBase" -}}
image: {{ include "regard.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{- include "regard.containerSecurity" . | nindent 2 }}
{{- end -}}

{{/* Label matchers of the series of this release, as the ServiceMonitor writes them. */}}
{{- define "regard.series" -}}
{{- $own := printf "namespace=%q,service=%q" .Release.Namespace (printf "%s-pods" (include "regard.fullname" .)) -}}
{{ default $own .Values.autoscaling.selector }}
{{- end -}}
