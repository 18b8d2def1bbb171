{{/* Egress rules that several policies share. */}}

{{- define "sallyport.dnsRule" -}}
{{- $dns := .Values.networkPolicies.dns }}
- to:
    - namespaceSelector:
        matchLabels:
          {{- toYaml $dns.namespaceLabels | nindent 10 }}
      podSelector:
        matchLabels:
          {{- toYaml $dns.podLabels | nindent 10 }}
    {{- range $dns.cidrs }}
    - ipBlock:
        cidr: {{ . }}
    {{- end }}
  ports:
    {{- range $port := $dns.ports }}
    {{- range $protocol := list "UDP" "TCP" }}
    - protocol: {{ $protocol }}
      port: {{ $port }}
    {{- end }}
    {{- end }}
{{- end }}

{{- define "sallyport.apiServerRule" -}}
{{- $n := .Values.networkPolicies -}}
- {{ with $n.apiServer.cidrs }}to:
    {{- range . }}
    - ipBlock:
        cidr: {{ . }}
    {{- end }}
  {{ end }}ports:
    {{- range $n.apiServer.ports }}
    - protocol: TCP
      port: {{ . }}
    {{- end }}
{{- end }}

{{- define "sallyport.controllerRule" -}}
- to:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: {{ .Release.Namespace }}
      podSelector:
        matchLabels:
          app: sallyport
  ports:
    - protocol: TCP
      port: 15012
{{- end }}
