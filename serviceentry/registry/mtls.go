package registry

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"istio.io/api/label"
)

// Meshed says whether an endpoint takes mutual TLS of the mesh at a port of its own: a proxy stands before it, as its label says, and no
// PeerAuthentication turns it off there; or its node's proxy does, and nothing else may come there.
func (e Endpoint) Meshed(port uint32) bool {
	if !e.Proxied {
		return false
	}
	if off, said := e.PlainAt[port]; said {
		return !off
	}
	return !e.Plain
}

// proxied says whether a pod's or a WorkloadEntry's labels tell clients that a proxy stands before it, which takes mutual TLS.
func proxied(labels map[string]string) bool { return labels[label.SecurityTlsMode.Name] == "istio" }

// TakesMutual says whether a workload takes mutual TLS, and looks into what comes to it: where the mesh speaks it, and where clients were
// told that it does.
func (s *Snapshot) TakesMutual(labels map[string]string) bool {
	return s.Mesh.MutualTLS || proxied(labels)
}

// ToldMutual says whether clients are told that a workload takes mutual TLS, by its labels.
func (s *Snapshot) ToldMutual(labels map[string]string) bool { return proxied(labels) }

// authenticate notes of endpoints of a namespace what their clients have to know.
func (s *Snapshot) authenticate(ns string, list []Endpoint) {
	for i := range list {
		e := &list[i]
		e.Proxied, e.Plain, e.PlainAt = proxied(e.Labels), false, nil
		if !e.Proxied && !e.Fronted {
			continue
		}
		e.Plain, e.PlainAt = s.Modes(ns, e.Labels).where(func(m MTLSMode) bool { return m == Disable })
	}
}

// authenticateAtNodes notes of a Service's endpoints which are pods without sidecars whose nodes' proxies take mutual TLS at some port: where nothing else may come
// (STRICT). Elsewhere they do not tell it apart, unless for a waypoint's sake: see resolve.InboundAtNode.
func (s *Snapshot) authenticateAtNodes(ns string, list []Endpoint) {
	if len(s.Mesh.NodeAgents) == 0 {
		return // nobody takes it
	}
	for i := range list {
		e := &list[i]
		if e.Proxied || e.OfNode || e.Written || e.Cluster != "" || !s.ByNode(ns, e.Labels) {
			continue
		}
		modes := s.Modes(ns, e.Labels)
		e.Proxied = modes.OnlyMutual()
		if e.Proxied && !e.Fronted { // what a waypoint stands before takes it wherever it is not turned off
			e.Plain, e.PlainAt = modes.where(func(m MTLSMode) bool { return m != Strict })
		}
	}
}

// AccountsOf are the service accounts of endpoints that take mutual TLS, sorted; "" stands for those of which none is known.
func AccountsOf(list []Endpoint) []string {
	var out []string
	for _, e := range list {
		if e.Proxied && !slices.Contains(out, e.ServiceAccount) {
			out = append(out, e.ServiceAccount)
		}
	}
	slices.Sort(out)
	return out
}

// InboundKey is what a workload lets in, in one text that can be compared: workloads of which it is equal take in the same. It is the mode,
// and each of the pod's own ports that something leads to, or that a PeerAuthentication names, in order: "PERMISSIVE
// 8080/HTTP 9000/TCP/STRICT 9001/-/DISABLE", with "@ADDRESS:PORT" behind where a Sidecar object leads it elsewhere in the pod. "" is that of a mesh without mutual TLS: what comes passes, and nothing is told apart; "UNASKED 8080/TCP@127.0.0.1:80" is that where a Sidecar object leads a port elsewhere. But a pod whose label
// says that it takes mutual TLS takes it, also when the mesh's setting is off: clients may hear of that later than the pod.
type InboundKey string

// InboundPort is one of the pod's own ports.
type InboundPort struct {
	Number uint32
	Led    bool // something leads there, beside a PeerAuthentication that names it
	HTTP   bool // requests are read; otherwise bytes pass
	Mode   MTLSMode
	// To is where it leads in the pod: a port of loopback, or with the unspecified address a port of the address that was connected to; not valid
	// for the port itself.
	To netip.AddrPort
}

// Inbound gives that of a workload. Which number a port has that a Service names is known from its endpoints: addresses are the
// pod's own.
func (s *Snapshot) Inbound(ns string, labels map[string]string, address string) InboundKey {
	if !s.TakesMutual(labels) {
		return s.forwarded(ns, labels)
	}
	var modes Modes // where it is switched off no PeerAuthentication counts
	if s.Mesh.MutualTLS {
		modes = s.Modes(ns, labels)
	}
	ports := s.portsOf(ns, labels, address)
	for number := range modes.Ports {
		if _, there := ports[number]; !there && !slices.Contains(AgentPorts, number) {
			ports[number] = InboundPort{Number: number}
		}
	}
	out := []string{modes.Default.String()}
	for _, number := range slices.Sorted(maps.Keys(ports)) {
		p := ports[number]
		p.Mode, _ = modes.At(number)
		out = append(out, p.text(modes.Default))
	}
	return InboundKey(strings.Join(out, " "))
}

// unasked begins the text of a workload that asks nobody: see Inbound.Asks.
const unasked = "UNASKED"

// forwarded is what a workload lets in that takes no mutual TLS: what a Sidecar object leads elsewhere in the pod goes there. Nothing is told apart, and no
// policy is asked.
func (s *Snapshot) forwarded(ns string, labels map[string]string) InboundKey {
	scope := s.Scope(ns, labels)
	if scope == nil || len(scope.Ingress) == 0 {
		return ""
	}
	out := []string{unasked}
	for _, p := range slices.SortedFunc(slices.Values(scope.Ingress), func(a, b InboundPort) int { return cmp.Compare(a.Number, b.Number) }) {
		p.HTTP = false
		out = append(out, p.text(p.Mode))
	}
	return InboundKey(strings.Join(out, " "))
}

// Asks says whether policies are asked about what comes in.
func (in InboundKey) Asks() bool { return in != "" && !strings.HasPrefix(string(in), unasked) }

// Renumbered gives the namespaces in which pods may have other numbers now for ports that Services name, or in which other ServiceEntries lead to them.
func (s *Snapshot) Renumbered(changed Changed) map[string]bool {
	out := map[string]bool{}
	for _, host := range changed.Endpoints {
		for _, svc := range s.Services(host) {
			if svc.Tabled() && slices.ContainsFunc(svc.Ports, func(p Port) bool { return p.Named }) {
				out[svc.Namespace] = true
			}
		}
	}
	for _, ns := range changed.Arriving {
		out[ns] = true
	}
	return out
}

// ownPort is the port of a pod that a Service's leads to; 0 where that is not known.
func (s *Snapshot) ownPort(k *KubeService, p Port, address string) uint32 {
	if p.Explicit {
		return p.TargetPort
	}
	if set := s.EndpointSet(k.Ref.Host()); set != nil {
		i, _ := slices.BinarySearchFunc(set.List, address, func(e Endpoint, at string) int { return cmp.Compare(e.Address, at) })
		for ; i < len(set.List) && set.List[i].Address == address; i++ {
			if set.List[i].Cluster == "" {
				return set.List[i].PortOf(p)
			}
		}
	}
	if p.Named {
		return 0
	}
	return p.TargetPort
}

func (p InboundPort) text(usual MTLSMode) string {
	kind := "-"
	switch {
	case p.HTTP:
		kind = "HTTP"
	case p.Led:
		kind = "TCP"
	}
	out := fmt.Sprintf("%d/%s", p.Number, kind)
	if p.Mode != usual {
		out += "/" + p.Mode.String()
	}
	if p.To.IsValid() {
		out += "@" + p.To.String()
	}
	return out
}

// Parse gives what the text says.
func (in InboundKey) Parse() (usual MTLSMode, ports []InboundPort) {
	words := strings.Fields(string(in))
	if len(words) == 0 {
		return Disable, nil
	}
	usual = modeOf(words[0])
	for _, word := range words[1:] {
		word, to, _ := strings.Cut(word, "@")
		parts := strings.Split(word, "/")
		p := InboundPort{Led: parts[1] != "-", HTTP: parts[1] == "HTTP", Mode: usual}
		p.To, _ = netip.ParseAddrPort(to)
		if n, err := strconv.ParseUint(parts[0], 10, 16); err == nil { // this package wrote it
			p.Number = uint32(n)
		}
		if len(parts) > 2 {
			p.Mode = modeOf(parts[2])
		}
		ports = append(ports, p)
	}
	return usual, ports
}

func modeOf(word string) MTLSMode {
	if word == unasked {
		return Disable
	}
	for _, m := range [...]MTLSMode{Disable, Strict} {
		if m.String() == word {
			return m
		}
	}
	return Permissive
}

// AgentPorts are the agent's own in a pod: probes and metrics, which come from outside of the mesh. No PeerAuthentication counts at them.
var AgentPorts = []uint32{15020, 15021, 15090}
