// Package selection says which workloads a security policy of Istio's is for: by their labels, as targets, or all of a namespace.
//
// In: what a policy's spec says of it. Out: a value that is held against a workload, wherever that is kept.
package selection

import (
	"maps"
	"slices"

	typev1beta1 "istio.io/api/type/v1beta1"
)

// GatewayName is the label of the pods of a Gateway of the Gateway API: its name.
const GatewayName = "gateway.networking.k8s.io/gateway-name"

// GatewayGroup is the group of the Gateway API.
const GatewayGroup = "gateway.networking.k8s.io"

// Workloads are those that a policy is for.
type Workloads struct {
	Namespace string // the policy's
	Selector  map[string]string
	// Targeted says that the policy names what it is for, of its own namespace: Services, ServiceEntries, and Gateways of the Gateway API; or, in the
	// root namespace, all waypoints of GatewayClasses.
	Targeted                             bool
	Services, Entries, Gateways, Classes []string
}

// Of are those that a spec of a policy in a namespace selects. Targets that are none of these are for nobody.
func Of(ns string, selector *typev1beta1.WorkloadSelector, target *typev1beta1.PolicyTargetReference, targets []*typev1beta1.PolicyTargetReference) Workloads {
	w := Workloads{Namespace: ns, Selector: selector.GetMatchLabels()}
	if target != nil {
		targets = append(targets[:len(targets):len(targets)], target)
	}
	w.Targeted = len(targets) > 0
	for _, t := range targets {
		switch {
		case t.Name == "":
		case IsService(t):
			w.Services = append(w.Services, t.Name)
		case IsEntry(t):
			w.Entries = append(w.Entries, t.Name)
		case IsGateway(t):
			w.Gateways = append(w.Gateways, t.Name)
		case IsClass(t):
			w.Classes = append(w.Classes, t.Name)
		}
	}
	return w
}

// IsService says whether a target is a Service.
func IsService(t *typev1beta1.PolicyTargetReference) bool {
	return t.Kind == "Service" && (t.Group == "" || t.Group == "core")
}

// IsEntry says whether a target is a ServiceEntry.
func IsEntry(t *typev1beta1.PolicyTargetReference) bool {
	return t.Kind == "ServiceEntry" && t.Group == "networking.istio.io"
}

// IsGateway says whether a target is a Gateway of the Gateway API.
func IsGateway(t *typev1beta1.PolicyTargetReference) bool {
	return t.Kind == "Gateway" && t.Group == GatewayGroup
}

// IsClass says whether a target is a GatewayClass, which means all waypoints of the class.
func IsClass(t *typev1beta1.PolicyTargetReference) bool {
	return t.Kind == "GatewayClass" && t.Group == GatewayGroup
}

// ForWaypoint says whether the policy is for a waypoint as a whole: it names the waypoint's Gateway, in the same namespace, or, in the root namespace, that
// Gateway's class.
func (w Workloads) ForWaypoint(root, ns, gateway, class string) bool {
	return w.Namespace == ns && slices.Contains(w.Gateways, gateway) || w.Namespace == root && slices.Contains(w.Classes, class)
}

// Selects says whether the policy is for a workload, by its namespace and labels, and the names of the Services of that namespace
// which select it. root is the mesh's root namespace, whose policies are for all others, too.
func (w Workloads) Selects(root, ns string, labels map[string]string, services []string) bool {
	own := w.Namespace == ns
	if w.Targeted {
		return own && (slices.Contains(w.Gateways, labels[GatewayName]) || slices.ContainsFunc(w.Services, func(s string) bool { return slices.Contains(services, s) }))
	}
	return (own || w.Namespace == root) && has(labels, w.Selector)
}

func has(labels, all map[string]string) bool {
	for k := range maps.Keys(all) {
		if v, ok := labels[k]; !ok || v != all[k] {
			return false
		}
	}
	return true
}
