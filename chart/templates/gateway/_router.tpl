{{/* The Deployment, Service and ServiceAccount of a gateway that Gateway objects open the ports of: (dict "root" $ "name" NAME
     "component" COMPONENT "gateway" VALUES). */}}
{{- define "sallyport.router" }}
{{- $root := .root }}
{{- $name := .name }}
{{- $component := .component }}
{{- $g := .gateway }}
{{- $d := $g.drain }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    app: {{ $name }}
    istio: {{ trimPrefix "istio-" $name }}
    {{- include "sallyport.labels" (dict "root" $root "component" $component) | nindent 4 }}
spec:
  replicas: {{ $g.replicas }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 25%
  selector:
    matchLabels:
      app: {{ $name }}
      istio: {{ trimPrefix "istio-" $name }}
  template:
    metadata:
      labels:
        app: {{ $name }}
        istio: {{ trimPrefix "istio-" $name }}
        {{- with $g.network }}
        topology.istio.io/network: {{ . }}
        {{- end }}
        {{- include "sallyport.podLabels" (dict "root" $root "component" $component "workload" $g) | nindent 8 }}
      {{- with $g.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: false
      # The delay and the drain, then time to end Envoy and to hand the last audit records in.
      terminationGracePeriodSeconds: {{ add $d.delaySeconds $d.maxSeconds 15 }}
      {{- with include "sallyport.scheduling" (dict "root" $root "workload" $g) | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- include "sallyport.spread" (dict "app" $name) | nindent 6 }}
      {{- include "sallyport.podSecurity" (dict "uid" 1337) | nindent 6 }}
      containers:
        - name: istio-proxy
          image: {{ include "sallyport.image" (dict "root" $root "image" "sallyport-proxy") }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            - proxy
            - router
            - --max-connections={{ int64 $g.maxConnections }}
            - --envoy-log-level={{ $g.logLevel }}
            {{- range $g.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: POD_NAME
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
            - name: POD_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            - name: INSTANCE_IPS
              valueFrom:
                fieldRef:
                  fieldPath: status.podIPs
            - name: SERVICE_ACCOUNT
              valueFrom:
                fieldRef:
                  fieldPath: spec.serviceAccountName
            - name: DISCOVERY_ADDRESS
              value: {{ include "sallyport.discovery" $root }}
            - name: TRUST_DOMAIN
              value: {{ include "sallyport.trustDomain" $root }}
            - name: ISTIO_META_CLUSTER_ID
              value: {{ $root.Values.clusterID }}
            - name: ISTIO_META_WORKLOAD_NAME
              value: {{ $name }}
            - name: CONCURRENCY
              {{- if $g.concurrency }}
              value: {{ $g.concurrency | quote }}
              {{- else }}
              valueFrom:
                resourceFieldRef:
                  resource: limits.cpu
              {{- end }}
            - name: TERMINATION_DRAIN_DURATION
              value: {{ $d.maxSeconds }}s
            - name: MINIMUM_DRAIN_DURATION
              value: {{ $d.minSeconds }}s
            {{- with get ($g.podAnnotations | default dict) "proxy.istio.io/config" | fromYaml }}
            {{- if hasKey . "gatewayTopology" }}
            - name: PROXY_CONFIG
              value: {{ pick . "gatewayTopology" | toJson | quote }}
            {{- end }}
            {{- end }}
            {{- with $g.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            {{- range $g.service.ports }}
            - name: {{ .name }}
              containerPort: {{ .targetPort }}
              {{- with .protocol }}
              protocol: {{ . }}
              {{- end }}
            {{- end }}
            - name: status-port
              containerPort: 15021
            - name: http-agent
              containerPort: 15020
            - name: http-envoy-prom
              containerPort: 15090
          lifecycle:
            # Endpoints lose the pod while it still takes connections; only then are the agent and Envoy told to end.
            preStop:
              sleep:
                seconds: {{ $d.delaySeconds }}
          startupProbe:
            httpGet:
              path: /healthz/ready
              port: status-port
            periodSeconds: 1
            failureThreshold: 120
          readinessProbe:
            httpGet:
              path: /healthz/ready
              port: status-port
            periodSeconds: 5
            timeoutSeconds: 3
            failureThreshold: 3
          # The agent restarts Envoy itself, so only a dead agent is a reason to cut everybody's connections.
          livenessProbe:
            tcpSocket:
              port: status-port
            periodSeconds: 20
            timeoutSeconds: 5
            failureThreshold: 6
          {{- with $g.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- include "sallyport.containerSecurity" $root | nindent 10 }}
          volumeMounts:
            - name: run
              mountPath: /var/run/sallyport
            - name: tmp
              mountPath: /tmp
            - name: podinfo
              mountPath: /etc/istio/pod
              readOnly: true
            {{- include "sallyport.identityMounts" $root | nindent 12 }}
            {{- with $g.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        # The last good configuration, and audit records that the store does not have yet.
        - name: run
          emptyDir:
            sizeLimit: {{ $g.runDirSize }}
        - name: tmp
          emptyDir:
            sizeLimit: 64Mi
        - name: podinfo
          downwardAPI:
            items:
              - path: labels
                fieldRef:
                  fieldPath: metadata.labels
        {{- include "sallyport.identityVolumes" $root | nindent 8 }}
        {{- with $g.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    app: {{ $name }}
    istio: {{ trimPrefix "istio-" $name }}
    {{- with $g.network }}
    topology.istio.io/network: {{ . }}
    {{- end }}
    {{- include "sallyport.labels" (dict "root" $root "component" $component) | nindent 4 }}
  {{- with $g.service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ $g.service.type }}
  selector:
    app: {{ $name }}
    istio: {{ trimPrefix "istio-" $name }}
  ports:
    # Gateway objects name the ports, and the pods listen at their target ports.
    {{- range $g.service.ports }}
    - name: {{ .name }}
      port: {{ .port }}
      targetPort: {{ .targetPort }}
      {{- with .protocol }}
      protocol: {{ . }}
      {{- end }}
    {{- end }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    app: {{ $name }}
    {{- include "sallyport.labels" (dict "root" $root "component" $component) | nindent 4 }}
automountServiceAccountToken: false
{{- end }}
