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
