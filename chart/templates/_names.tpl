{{/* Names and addresses that other objects, agents and people rely on. They do not follow the release's name: a mesh has
     one of each in a namespace. Cluster-wide objects carry the namespace. */}}

{{- define "sallyport.clusterName" -}}
sallyport-{{ .Release.Namespace }}
{{- end }}

{{- define "sallyport.discovery" -}}
sallyport.{{ .Release.Namespace }}.svc:15012
{{- end }}

{{- define "sallyport.auditAddress" -}}
sallyport-audit.{{ .Release.Namespace }}.svc:15016
{{- end }}

{{- define "sallyport.trustDomain" -}}
{{ .Values.meshConfig.trustDomain | default .Values.clusterDomain }}
{{- end }}

{{/* The image called .image, in (dict "root" $ "image" NAME). */}}
{{- define "sallyport.image" -}}
{{- $i := .root.Values.image -}}
{{- with $i.registry }}{{ . }}/{{ end }}{{ .image }}:{{ $i.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* Labels of an object of one component, in (dict "root" $ "component" NAME). */}}
{{- define "sallyport.labels" -}}
app.kubernetes.io/name: sallyport
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: sallyport
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Istio's mesh-wide settings: what the values say, over what follows from the release. */}}
{{- define "sallyport.mesh" -}}
{{- $base := dict "rootNamespace" .Release.Namespace "trustDomain" .Values.clusterDomain -}}
{{- $own := dict -}}
{{- if .Values.egressGateway.enabled -}}
{{- $_ := set $own "defaultGateway" (printf "%s/istio-egressgateway" .Release.Namespace) -}}
{{- end -}}
{{- if .Values.ambient.enabled -}}
{{- $_ := set $own "nodeAgents" (list (printf "%s/sallyport-ambient" .Release.Namespace)) -}}
{{- end -}}
{{- with $own -}}
{{- $_ := set $base "sallyport" . -}}
{{- end -}}
{{- toYaml (mergeOverwrite $base (deepCopy .Values.meshConfig)) -}}
{{- end }}

{{/* Those of the custom kinds that decisions depend on, which the audit server reads for its page. */}}
{{- define "sallyport.decidingKinds" -}}
{{- $kinds := pick (include "sallyport.kinds" . | fromJson) "egress.sallyport.io" "gateway.networking.k8s.io" "networking.istio.io" "security.istio.io" -}}
{{- $_ := set $kinds "networking.istio.io" (without (get $kinds "networking.istio.io") "envoyfilters" "proxyconfigs" "workloadgroups") -}}
{{- $kinds | toJson }}
{{- end }}

{{/* The custom kinds that the controller reads, judges and writes the status of: API groups and their resources, as JSON. */}}
{{- define "sallyport.kinds" -}}
{{- dict
  "egress.sallyport.io" (list "egresspolicies")
  "gateway.networking.k8s.io" (list "backendtlspolicies" "gatewayclasses" "gateways" "grpcroutes" "httproutes" "listenersets" "referencegrants" "tcproutes" "tlsroutes" "udproutes")
  "networking.istio.io" (list "destinationrules" "envoyfilters" "gateways" "proxyconfigs" "serviceentries" "sidecars" "virtualservices" "workloadentries" "workloadgroups")
  "security.istio.io" (list "authorizationpolicies" "peerauthentications" "requestauthentications")
  "telemetry.istio.io" (list "telemetries")
  "extensions.istio.io" (list "trafficextensions" "wasmplugins")
| toJson }}
{{- end }}

{{/* How many seconds a duration lasts, of hours, minutes and seconds, such as 1h30m. */}}
{{- define "sallyport.seconds" -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+[hms]" . -1 -}}
{{- $unit := get (dict "h" 3600 "m" 60 "s" 1) (substr (int (sub (len .) 1)) (len .) .) -}}
{{- $sum = add $sum (mul $unit (regexFind "[0-9]+" . | int)) -}}
{{- end -}}
{{- $sum }}
{{- end }}
