// Package appprobe asks a pod's application how it is, for the kubelet.
//
// A kubelet's probe comes from the node without a certificate, so a proxy that insists on mTLS would refuse it. The
// injector therefore points each probe to the agent's port 15020 and writes the original ones into the environment
// (Variable); the agent performs them inside the pod.
//
// In: that variable, the pod's address; out: an HTTP handler for the listed paths and no others. Probes go to the pod
// itself only: never to a host that somebody names.
//
// It must not import Kubernetes: the agent carries it.
package appprobe
