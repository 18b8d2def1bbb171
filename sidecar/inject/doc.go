// Package inject gives pods their proxy: an init container that catches their traffic, and the agent with its Envoy,
// as a native sidecar (an init container that keeps running) where the cluster has those, Kubernetes 1.29 and later, else as a
// container.
//
// In: a pod, its namespace's labels and the Settings; out: a changed copy, or the reason why there is none. Inject is a
// pure function, but for the secrets of hooks (Settings.Secret). Handler puts it behind a mutating admission webhook; package manifest runs it over YAML files.
//
// The rules of who is injected, labels, annotations and their meaning are Istio's
// (https://istio.io/latest/docs/reference/config/annotations/). Unlike there, an annotation whose value cannot be used
// always refuses the pod, and one that has no effect here gives a warning: what somebody wrote to guard a pod must not
// vanish silently.
//
// # The webhook's registration
//
// The chart registers a MutatingWebhookConfiguration for CREATE of pods, path /inject, that is made so:
//
//   - failurePolicy Fail, timeoutSeconds 10: a pod that starts without its proxy would go around it, and nobody would see. While the
//     controller is away, labelled pods are not created; their controllers try again.
//   - It must not lock the cluster. namespaceSelector: kubernetes.io/metadata.name NotIn kube-system, kube-public,
//     kube-node-lease and the control plane's own namespace, so that the controller and what it needs (network, DNS, storage) start
//     without asking it. objectSelector: sidecar.istio.io/inject NotIn false, which is a way out for single pods.
//   - One entry for namespaces with istio-injection=enabled, or with istio.io/rev of this revision; one for pods with
//     sidecar.istio.io/inject=true, or with istio.io/rev, in namespaces with neither label. The API server evaluates
//     selectors, so pods of the other namespaces are created without this webhook, whatever its state. Inject
//     checks everything again and depends on no selector.
//   - reinvocationPolicy IfNeeded: containers that other webhooks add to a pod that is injected already get their probes
//     rewritten too; nothing else of it changes.
//   - matchPolicy Equivalent, sideEffects None, admissionReviewVersions v1.
//
// # What a pod gets, and why so
//
// No fsGroup is set: the kubelet writes the projected token so that the proxy's user can read it, emptyDirs are
// writable, and an fsGroup would change the owner of all files in the user's volumes. Keys live in a memory volume and
// never touch the node's disk; audit records wait on a disk volume and survive a container's restart. On
// SIGTERM the agent itself drains Envoy, at least minimumDrainDuration, at most terminationDrainDuration. A native
// sidecar is told to end only when the application has ended; so a preStop hook, which is called when the pod is told to end, has it ask clients
// to close what they keep. There is no other one.
//
// The package must not import the data plane's parts, but for the rules of redirection and the form of probes. Of the
// control plane it imports only how reviews are read and answered (config/admission/review), and what becomes of each field of
// a ProxyConfig (config/fields): it runs in the controller, never in a pod.
package inject
