package workload

import (
	"maps"
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/xds/identity"
)

// Node is what a proxy claims to be.
type Node struct {
	ID             string // TYPE~IP~POD.NAMESPACE~DOMAIN
	Namespace      string // of the metadata; empty claims nothing beside the id
	ServiceAccount string // of the metadata; empty claims nothing
}

// Pods looks up a pod as the Kubernetes API knows it. ok is false for one that is not known, or not yet. The service
// account may be empty, which is "default". ips are empty as long as the pod has none. Labels are not changed.
type Pods interface {
	Pod(namespace, name string) (labels map[string]string, serviceAccount string, ips []string, ok bool)
}

// Pod is what a proxy is.
type Pod struct {
	Namespace, Name string
	ServiceAccount  string
	Labels          map[string]string // a copy
	IPs             []netip.Addr
}

// IPv6 says whether one of the pod's addresses is an IPv6 address that others can reach.
func (p Pod) IPv6() bool {
	for _, ip := range p.IPs {
		if ip.Is6() && !ip.Is4In6() && !ip.IsLinkLocalUnicast() {
			return true
		}
	}
	return false
}

// Bind returns the pod that the caller's proxy stands in. of is the pod that the caller's token is bound to, zero for
// callers that came with a certificate, which proves the service account only: they may be any of its pods, since its
// pods share the certificate's identity anyway.
//
// The error is a *Refused when a claim is false, and an *Unknown when the pod, or its address, is not known (yet): the
// proxy may try again.
func Bind(caller identity.ID, of identity.Pod, node Node, pods Pods) (Pod, error) {
	refused := func(format string, args ...any) (Pod, error) { return Pod{}, refuse(caller, node, format, args...) }
	claims, err := parseID(node.ID)
	if err != nil {
		return refused("%v", err)
	}
	switch {
	case claims.namespace != caller.Namespace:
		return refused("its namespace is %q", claims.namespace)
	case node.Namespace != "" && node.Namespace != caller.Namespace:
		return refused("the namespace in its metadata is %q", node.Namespace)
	case node.ServiceAccount != "" && node.ServiceAccount != caller.ServiceAccount:
		return refused("the service account in its metadata is %q", node.ServiceAccount)
	case of.Name != "" && of.Name != claims.pod:
		return refused("the token is of the pod %q", of.Name)
	}
	labels, account, ips, ok := pods.Pod(claims.namespace, claims.pod)
	if !ok {
		return Pod{}, &Unknown{Namespace: claims.namespace, Name: claims.pod, what: "is not known to the controller"}
	}
	if account == "" {
		account = "default"
	}
	if account != caller.ServiceAccount {
		return refused("that pod's service account is %q", account)
	}
	pod := Pod{Namespace: claims.namespace, Name: claims.pod, ServiceAccount: account, Labels: maps.Clone(labels)}
	for _, text := range ips {
		if ip, err := netip.ParseAddr(text); err == nil {
			pod.IPs = append(pod.IPs, ip.Unmap())
		}
	}
	if len(pod.IPs) == 0 {
		return Pod{}, &Unknown{Namespace: claims.namespace, Name: claims.pod, what: "has no address yet, as far as the controller knows"}
	}
	for _, ip := range pod.IPs {
		if ip == claims.ip {
			return pod, nil
		}
	}
	return refused("that pod's addresses are %s", strings.Join(ips, ", "))
}
