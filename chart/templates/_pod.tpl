{{/* What all workloads have in common. Each takes (dict "root" $ "workload" .Values.NAME …). */}}

{{- define "sallyport.podLabels" -}}
{{ include "sallyport.labels" . }}
sidecar.istio.io/inject: "false"
{{- with .workload.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sallyport.scheduling" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .workload.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .workload.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .workload.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .workload.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Replicas on different nodes and in different zones, as far as there are any. */}}
{{- define "sallyport.spread" -}}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        app: {{ $.app }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}

{{- define "sallyport.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .uid }}
  runAsGroup: {{ .uid }}
  fsGroup: {{ .uid }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "sallyport.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  privileged: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* Where a workload of the mesh finds its token and the mesh's roots, and their volumes. */}}
{{- define "sallyport.identityMounts" -}}
- name: istio-token
  mountPath: /var/run/secrets/tokens
  readOnly: true
- name: istiod-ca-cert
  mountPath: /var/run/secrets/istio
  readOnly: true
{{- end }}

{{- define "sallyport.identityVolumes" -}}
- name: istio-token
  projected:
    sources:
      - serviceAccountToken:
          path: istio-token
          audience: istio-ca
          expirationSeconds: 43200
- name: istiod-ca-cert
  configMap:
    name: istio-ca-root-cert
{{- end }}
