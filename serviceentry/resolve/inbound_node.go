package resolve

import (
	"maps"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// InboundAtNode is that of a pod without a sidecar, whose node's proxy looks at connections and not at requests. Mutual TLS to its own ports it takes
// where clients are told so, by its label or by a waypoint, or where nothing else may come: elsewhere, telling it apart would keep protocols waiting in
// which the server speaks first.
func InboundAtNode(s *registry.Snapshot, ns string, labels map[string]string) Inbound {
	return InboundToldMutual(s, ns, labels, ToldMutual(s, ns, labels))
}

// ToldMutual says whether clients are told that a pod without a sidecar takes mutual TLS: by its label, or by a waypoint, which is one of them.
func ToldMutual(s *registry.Snapshot, ns string, labels map[string]string) bool {
	return s.ToldMutual(labels) || s.BehindWaypoint(ns, labels)
}

// OnlyMutualSomewhere says whether a pod without a sidecar takes nothing but mutual TLS at some port (STRICT): clients speak it there.
func OnlyMutualSomewhere(s *registry.Snapshot, ns string, labels map[string]string) bool {
	return s.Mesh.MutualTLS && s.Modes(ns, labels).OnlyMutual()
}

// InboundToldMutual is InboundAtNode of a pod whose clients were told so, or were not.
func InboundToldMutual(s *registry.Snapshot, ns string, labels map[string]string, told bool) Inbound {
	in := Inbound{Mode: registry.Disable, Alone: true, Authorized: len(s.AuthorizingInbound(ns, labels)) > 0}
	if !s.Mesh.MutualTLS {
		return in
	}
	as := func(m registry.MTLSMode) registry.MTLSMode {
		if m == registry.Permissive && !told {
			return registry.Disable
		}
		return m
	}
	modes := s.Modes(ns, labels)
	in.Mode = as(modes.Default)
	for _, port := range slices.Sorted(maps.Keys(modes.Ports)) {
		if mode := as(modes.Ports[port]); mode != in.Mode {
			in.Ports = append(in.Ports, registry.InboundPort{Number: port, Mode: mode})
		}
	}
	return in
}

// UnsupportedInbound says what of requests that come to a pod without a sidecar its node's proxy does not look at, though an object asks for it: such a
// pod is closed. "" where there is nothing.
func UnsupportedInbound(s *registry.Snapshot, ns string, labels map[string]string) (by config.Key, why string) {
	if list := s.AuthorizingInbound(ns, labels).Deciding(authz.Custom); len(list) > 0 {
		by = list[0].Key
		return by, "the AuthorizationPolicy " + by.Namespace + "/" + by.Name + " has a provider asked about what comes to it (CUSTOM), which the proxy of a node does not ask"
	}
	if list := s.VerifyingInbound(ns, labels); len(list) > 0 {
		by = list[0].Key
		return by, "the RequestAuthentication " + by.Namespace + "/" + by.Name + " is about tokens of requests to it, which the proxy of a node does not verify"
	}
	return by, ""
}
