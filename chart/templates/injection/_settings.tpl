{{/* The injector's settings: what the values say, over what follows from the release. */}}
{{- define "sallyport.injection" -}}
{{- $i := .Values.injector -}}
{{- $base := dict
  "image" (include "sallyport.image" (dict "root" . "image" "sallyport-proxy"))
  "imagePullPolicy" .Values.image.pullPolicy
  "imagePullSecrets" .Values.image.pullSecrets
  "discoveryAddress" (include "sallyport.discovery" .)
  "trustDomain" (include "sallyport.trustDomain" .)
  "clusterID" .Values.clusterID
  "revision" .Values.revision
  "defaultRevision" $i.defaultRevision
  "enableNamespacesByDefault" $i.enableNamespacesByDefault
  "neverNamespaces" (concat (list "kube-system" "kube-public" "kube-node-lease" .Release.Namespace) $i.excludedNamespaces | uniq)
-}}
{{- toYaml (mergeOverwrite $base (deepCopy $i.settings)) -}}
{{- end }}

{{/* Whether gateways are made of the Gateway API's Gateways: as the value says, or where the cluster has the API. */}}
{{- define "sallyport.gatewayAPI" -}}
{{- $e := .Values.gatewayAPI.enabled | toString -}}
{{- if or (eq $e "true") (and (eq $e "auto") (.Capabilities.APIVersions.Has "gateway.networking.k8s.io/v1/GatewayClass")) -}}true{{- end -}}
{{- end }}

{{/* The settings of these gateways: what the values say, over what follows from the release. */}}
{{- define "sallyport.gateways" -}}
{{- $base := dict
  "image" (include "sallyport.image" (dict "root" . "image" "sallyport-proxy"))
  "imagePullPolicy" .Values.image.pullPolicy
  "imagePullSecrets" .Values.image.pullSecrets
  "discoveryAddress" (include "sallyport.discovery" .)
  "trustDomain" (include "sallyport.trustDomain" .)
  "clusterID" .Values.clusterID
-}}
{{- toYaml (mergeOverwrite $base (deepCopy .Values.gatewayAPI.settings)) -}}
{{- end }}
