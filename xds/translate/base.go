package translate

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/egressgateway"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/node"
	"github.com/sallyport/sallyport/xds/translate/outbound"
	"github.com/sallyport/sallyport/xds/translate/part"
)

// baseInputs is what a class's base is made from: what its proxies get beside the hosts. It depends on which ports and
// gateways are in use, never on which hosts.
type baseInputs interface{ Resources() []*resource.Resource }

func baseFrom(s *registry.Snapshot, c Class, u uses, hosts envoy.InlineHosts, shown *certificates) baseInputs {
	if c.Kind == Sidecar || c.Kind == Ambient {
		in := sidecarInputs(s, c, u)
		in.Hosts, in.Secrets = hosts, materials(s, u)
		if c.Kind == Ambient {
			in.Pods = true
			for _, gateway := range slices.SortedFunc(maps.Keys(u.pods), func(a, b registry.Ref) int { return cmp.Compare(a.String(), b.String()) }) {
				in.Waypoints = append(in.Waypoints, c.sidecar(s).FrontOf(gateway))
			}
			return node.Inputs{Inputs: in}
		}
		return in
	}
	switch c.Kind {
	case Ingress:
		return ingressInputs(s, c, u, hosts, shown)
	case Waypoint:
		return waypointInputs(s, c, u, hosts)
	}
	in := egressgateway.Inputs{
		Hosts:  hosts,
		Listen: cmp.Or(c.Port, registry.DefaultTunnelPort), Forward: c.Forward, Verified: c.Kind == Gateway, Trust: envoy.TrustsOf(s.Mesh),
		Policy: meshPolicy(s), IPv6: c.IPv6, OnDemand: c.OnDemand, Ends: c.Ends, DNSDefaults: exitDNSDefaults(s, c.Kind == Gateway), Secrets: materials(s, u), Kept: policiesKept(s),
	}
	in.Kept.Told = c.Ends
	if c.Kind == Gateway {
		if c.Fetch {
			in.Fetch = s.Mesh.KeepUnused
		}
		in.Policies, in.Kept.Authz, in.Kept.Tokens = policyNames(s), s.AuthorizesIn(c.Gateway.Namespace), s.VerifiesIn(c.Gateway.Namespace)
	}
	return in
}

// detectDefault is how long a sidecar waits for a client's first bytes where the mesh sets no limit. Waiting for
// ever, as Istio does, would hang protocols in which the server speaks first.
const detectDefault = time.Second

// detectWeb is so at ports 80 and 443, where it is never the server that speaks first.
const detectWeb = 15 * time.Second

// detectSilent is so once it was looked up that at the address it is clients that speak first: longer than the pools of clients keep what they
// opened ahead and never used (a minute or a minute and a half, mostly), so that it is they who close it.
const detectSilent = 2 * time.Minute

func sidecarInputs(s *registry.Snapshot, c Class, u uses) outbound.Inputs {
	who := c.sidecar(s)
	in := outbound.Inputs{
		Ports:   listeningPorts(u, func(hosts []string) string { return s.RangeOwner(hosts, c.View, who.Scope()) }),
		Outside: who.OutboundPolicy(), Detect: cmp.Or(s.Mesh.ProtocolDetectionTimeout, detectDefault), DetectWeb: cmp.Or(s.Mesh.ProtocolDetectionTimeout, detectWeb),
		Silence: cmp.Or(s.Mesh.ProtocolDetectionTimeout, detectSilent), Reconnects: c.Reconnects,
		Connect: s.Mesh.ConnectTimeout, IPv6: c.IPv6, TCPPorts: s.Mesh.TCPPorts, Mesh: s.Mesh.Audit.Mesh == mesh.MeshAll, Ends: c.Ends,
	}
	in.Names, in.Inbound = sidecarDNSDefaults(s, in.Outside), inboundInputs(s, c)
	if c.Fetch {
		in.Fetch, in.Named = s.Mesh.KeepUnused, c.Named
	}
	in.Gateways = gatewaysUsed(s, c, u)
	return in
}

// gatewaysUsed are the egress gateways that hosts of a view leave by, in order.
func gatewaysUsed(s *registry.Snapshot, c Class, u uses) (out []outbound.Gateway) {
	legs := slices.SortedFunc(maps.Keys(u.gateways), func(a, b part.GatewayRef) int { return cmp.Compare(a.Cluster(), b.Cluster()) })
	for _, to := range legs {
		out = append(out, gatewayAt(s, to, c.near(s)))
	}
	return out
}

// meshPolicy quotes the object behind the mesh-wide outbound policy.
func meshPolicy(s *registry.Snapshot) string { return envoy.ObjectRef(resolve.MeshPolicy(s)) }

// listeningPorts gives the ports in use, and those that always are.
func listeningPorts(u uses, owner func(hosts []string) string) []outbound.Listening {
	spoken, blind := map[uint32]bool{}, map[uint32]bool{} // something can be read there; something cannot
	for _, n := range outbound.AlwaysListening {
		spoken[n] = true
	}
	for use := range u.ports {
		spoken[use.Number] = spoken[use.Number] || (!use.Opaque && !use.Foreign)
		blind[use.Number] = blind[use.Number] || use.Opaque
	}
	var out []outbound.Listening
	for _, n := range slices.Sorted(maps.Keys(spoken)) {
		out = append(out, outbound.Listening{Number: n, Opaque: blind[n] && !spoken[n], Ranges: rangesAt(u, n, owner)})
	}
	return out
}

// rangesAt gives the ranges of a port, in order; of several hosts that wrote the same one, owner says whose it is.
func rangesAt(u uses, port uint32, owner func(hosts []string) string) []part.RangeUse {
	of := map[netip.Prefix][]part.RangeUse{}
	for r := range u.ranges {
		if r.Port == port {
			of[r.Prefix] = append(of[r.Prefix], r)
		}
	}
	var out []part.RangeUse
	for _, prefix := range slices.SortedFunc(maps.Keys(of), netip.Prefix.Compare) {
		hosts := make([]string, len(of[prefix]))
		for i, r := range of[prefix] {
			hosts[i] = r.Host
		}
		has := owner(hosts)
		if i := slices.IndexFunc(of[prefix], func(r part.RangeUse) bool { return r.Host == has }); i >= 0 {
			out = append(out, of[prefix][i])
		}
	}
	return out
}

// gatewayAt finds a gateway's endpoints and who they must prove to be. A gateway that is not there has no
// endpoints: what should leave by it stays in.
func gatewayAt(s *registry.Snapshot, to part.GatewayRef, near registry.ClientLocation) outbound.Gateway {
	ref := to.Ref
	g := outbound.Gateway{GatewayRef: to, Port: registry.Port{Number: registry.GatewayPort, TargetPort: registry.DefaultTunnelPort}}
	ends := resolve.ExitAt(s, ref)
	if len(ends.Endpoints) > 0 {
		g.Port, g.Endpoints = ends.Port, near.ReachExit(ends.Endpoints, ends.Port)
	}
	accounts := map[string]bool{}
	for _, e := range ends.Endpoints {
		accounts[cmp.Or(e.ServiceAccount, ref.Name+"-service-account")] = true
	}
	if len(accounts) == 0 {
		accounts[ref.Name+"-service-account"] = true
	}
	for _, a := range slices.Sorted(maps.Keys(accounts)) {
		g.Identities = append(g.Identities, envoy.TrustsOf(s.Mesh).Account(ref.Namespace, a)...)
	}
	return g
}

// materials are what the hosts of a view need of Secrets, in order. Hosts name them; what is in them is the base's, so
// that a key that is exchanged is one resource for all hosts that use it.
func materials(s *registry.Snapshot, u uses) []farend.Material {
	all := map[registry.CredentialRef]registry.ServedCredential{}
	for g := range u.secrets {
		sum := all[g.Ref]
		all[g.Ref] = registry.ServedCredential{Ref: g.Ref, Pair: sum.Pair || g.Pair, Roots: sum.Roots || g.Roots}
	}
	var out []farend.Material
	for _, ref := range slices.SortedFunc(maps.Keys(all), func(a, b registry.CredentialRef) int {
		return cmp.Or(cmp.Compare(a.Bundle, b.Bundle), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		if c, _ := s.Credential(ref); c != nil {
			out = append(out, farend.Material{Given: all[ref], Credential: c})
		}
	}
	return out
}

// inline gathers the hosts of a view being made, if its class wants that.
func (e *edit) inline() envoy.InlineHosts {
	if !e.next.Class.Inline {
		return nil
	}
	out := envoy.InlineHosts{}
	e.sets[resource.VirtualHost].Walk(func(name string, r *resource.Resource) bool {
		if strings.HasSuffix(name, "/"+envoy.Nobody) { // of a view of tables that need it
			return true
		}
		vh := &routev3.VirtualHost{}
		if err := proto.Unmarshal(r.Value(), vh); err != nil {
			panic(fmt.Sprintf("translate: virtual host %q does not unmarshal: %v", r.Name, err)) // this package marshalled it
		}
		table, _, _ := strings.Cut(name, "/")
		out[table] = append(out[table], vh)
		return true
	})
	return out
}
