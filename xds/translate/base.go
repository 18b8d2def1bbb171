package translate

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
)

// baseInputs is what a class's base is made from: what its proxies get beside the hosts. It depends on which ports and
// gateways are in use, never on which hosts.
type baseInputs interface{ resources() []*Resource }

func (in sidecarIn) resources() []*Resource {
	return slices.Concat(sealSecrets(in.secrets), sidecarBase(in), []*Resource{sealRest(in.names)})
}

func (in exitInputs) resources() []*Resource {
	return slices.Concat(sealSecrets(in.secrets), exitBase(in), []*Resource{sealRest(in.rest)})
}

func baseFrom(s *registry.Snapshot, c Class, u uses, hosts inline) baseInputs {
	if c.Kind == Sidecar {
		in := sidecarInputs(s, c, u)
		in.hosts, in.secrets = hosts, materials(s, u)
		return in
	}
	return exitInputs{
		hosts:  hosts,
		listen: cmp.Or(c.Port, defaultListenPort), forward: c.Forward, kind: c.Kind, trust: trustsOf(s.Mesh),
		policy: meshPolicy(s), ipv6: c.IPv6, onDemand: c.OnDemand, rest: exitRest(s, c.Kind == Gateway), secrets: materials(s, u),
	}
}

// detectDefault is how long a sidecar waits for a client's first bytes where the mesh sets no limit. Waiting for
// ever, as Istio does, would hang protocols in which the server speaks first.
const detectDefault = time.Second

// sidecarIn is what a sidecar's base is made from.
type sidecarIn struct {
	ports    []listening
	gateways []gateway
	outside  resolve.Rest // what happens to what nobody registered
	detect   time.Duration
	connect  time.Duration // the mesh's connectTimeout
	ipv6     bool
	hosts    inline
	names    name.Rest // what DNS does with what is in no name table
	secrets  []material
}

// listening is a port that some host is registered at.
type listening struct {
	number uint32
	opaque bool       // only TCP services, not all of other namespaces: nothing to inspect
	ranges []rangeUse // of TCP services that own ranges of addresses, in order
}

// leg is the way to an egress gateway. A borrowed one, which its owner does not name as a gateway, has a cluster
// beside the one that it has as a service.
type leg struct {
	ref      registry.Ref
	borrowed bool
}

func legOf(svc *registry.Service) leg { return leg{svc.Exit, svc.Borrowed} }

func (l leg) cluster() string {
	if l.borrowed {
		return subsetName(GatewayPort, "egress", l.ref.Host())
	}
	return ClusterName(GatewayPort, l.ref.Host())
}

// gateway is an egress gateway as its clients see it.
type gateway struct {
	leg
	endpoints  []registry.Endpoint
	port       registry.Port
	identities []string
}

func sidecarInputs(s *registry.Snapshot, c Class, u uses) sidecarIn {
	who := c.sidecar(s)
	in := sidecarIn{
		ports:   listeningPorts(u, func(hosts []string) string { return s.RangeOwner(hosts, c.View, who.Scope()) }),
		outside: who.Rest(), detect: cmp.Or(s.Mesh.ProtocolDetectionTimeout, detectDefault), connect: s.Mesh.ConnectTimeout, ipv6: c.IPv6,
	}
	in.names = sidecarRest(s, in.outside)
	legs := slices.SortedFunc(maps.Keys(u.gateways), func(a, b leg) int { return cmp.Compare(a.cluster(), b.cluster()) })
	for _, to := range legs {
		in.gateways = append(in.gateways, gatewayAt(s, to))
	}
	return in
}

// meshPolicy quotes the object behind the mesh-wide outbound policy.
func meshPolicy(s *registry.Snapshot) string { return configOf(resolve.MeshPolicy(s)) }

// alwaysListening are the ports that have listeners also where nothing is registered at them: that is where names are
// tried that nobody registered.
var alwaysListening = []uint32{80, 443}

// listeningPorts gives the ports in use, and those that always are.
func listeningPorts(u uses, owner func(hosts []string) string) []listening {
	spoken, blind := map[uint32]bool{}, map[uint32]bool{} // something can be read there; something cannot
	for _, n := range alwaysListening {
		spoken[n] = true
	}
	for use := range u.ports {
		spoken[use.number] = spoken[use.number] || (!use.opaque && !use.foreign)
		blind[use.number] = blind[use.number] || use.opaque
	}
	var out []listening
	for _, n := range slices.Sorted(maps.Keys(spoken)) {
		out = append(out, listening{number: n, opaque: blind[n] && !spoken[n], ranges: rangesAt(u, n, owner)})
	}
	return out
}

// rangesAt gives the ranges of a port, in order; of several hosts that wrote the same one, owner says whose it is.
func rangesAt(u uses, port uint32, owner func(hosts []string) string) []rangeUse {
	of := map[netip.Prefix][]rangeUse{}
	for r := range u.ranges {
		if r.port == port {
			of[r.prefix] = append(of[r.prefix], r)
		}
	}
	var out []rangeUse
	for _, prefix := range slices.SortedFunc(maps.Keys(of), netip.Prefix.Compare) {
		hosts := make([]string, len(of[prefix]))
		for i, r := range of[prefix] {
			hosts[i] = r.host
		}
		has := owner(hosts)
		if i := slices.IndexFunc(of[prefix], func(r rangeUse) bool { return r.host == has }); i >= 0 {
			out = append(out, of[prefix][i])
		}
	}
	return out
}

// gatewayAt finds a gateway's endpoints and who they must prove to be. A gateway that is not there has no
// endpoints: what should leave by it stays in.
func gatewayAt(s *registry.Snapshot, to leg) gateway {
	ref := to.ref
	g := gateway{leg: to, port: registry.Port{Number: GatewayPort, TargetPort: defaultListenPort}}
	if svc := s.GatewayService(ref); svc != nil {
		if p, ok := svc.Port(GatewayPort); ok {
			g.port, g.endpoints = p, svc.Endpoints
			if !p.Explicit {
				g.port.TargetPort = defaultListenPort
			}
		}
	}
	accounts := map[string]bool{}
	for _, e := range g.endpoints {
		accounts[cmp.Or(e.ServiceAccount, ref.Name+"-service-account")] = true
	}
	if len(accounts) == 0 {
		accounts[ref.Name+"-service-account"] = true
	}
	for _, a := range slices.Sorted(maps.Keys(accounts)) {
		g.identities = append(g.identities, trustsOf(s.Mesh).account(ref.Namespace, a)...)
	}
	return g
}
