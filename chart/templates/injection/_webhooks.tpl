{{/* The caBundle of the webhook called .name in the live object .live, as a line, or nothing: the controller's leader
     writes it, and an upgrade must not take it away. */}}
{{- define "sallyport.caBundle" -}}
{{- $name := .name }}
{{- range (.live).webhooks }}
{{- if and (eq .name $name) .clientConfig.caBundle }}
caBundle: {{ .clientConfig.caBundle }}
{{- end }}
{{- end }}
{{- end }}

{{/* The path of that webhook, likewise. */}}
{{- define "sallyport.path" -}}
{{- $name := .name }}
{{- range (.live).webhooks }}
{{- if and (eq .name $name) .clientConfig.service.path }}
path: {{ .clientConfig.service.path }}
{{- end }}
{{- end }}
{{- end }}

{{/* Namespaces whose pods are never held up: without them there is no cluster, or no injector. */}}
{{- define "sallyport.neverInjected" -}}
- key: kubernetes.io/metadata.name
  operator: NotIn
  values: [kube-system, kube-public, kube-node-lease, {{ .Release.Namespace }}]
{{- end }}
