// Package gateway says what a Gateway of the Gateway API consists of in the cluster: a ServiceAccount, a Deployment of
// proxies, and a Service with its listeners' ports, named as Istio names them (GATEWAY-CLASS); a HorizontalPodAutoscaler and a PodDisruptionBudget
// where its parameters ask for them.
//
// In: a Gateway, the ports of the ListenerSets attached to it, the Settings, and its parameters (package overlay, which says what they may change);
// out: the objects, owned by the Gateway.
// Objects is a pure function; package config/source/kube/deploy keeps them in the cluster.
//
// The pods have no rights: ports below 1024 are opened by the pod's own sysctl net.ipv4.ip_unprivileged_port_start, which
// Kubernetes counts as safe, so that the listeners' ports are the pods' ports and no table of shifted ports is needed.
// Labels and annotations of spec.infrastructure are on all objects and on the pods, but never replace ours.
package gateway
