package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// VirtualService is what one says of the way to its hosts, with the routes of its delegates in their places. It is
// immutable; equal hashes mean equal values.
type VirtualService struct {
	Key      config.Key
	Revision string
	Created  time.Time
	Joined   bool     `json:",omitempty"` // it is what all routes of the Gateway API of a namespace make of a Service; Key is the oldest's
	Hosts    []string // full names and patterns, in lower case
	Gateways []string // where it counts: route.Mesh, Gateway objects as "NAMESPACE/NAME"
	ExportTo ExportTo
	Leaves   []EgressRoutePort `json:",omitempty"` // what a route of the Gateway API lets out
	route.Routes

	Hash uint64 // covers everything above

	ends    map[string]bool  // the hosts that its routes lead to
	rows    int              // what proxies are told of for one host
	places  [3][]route.Where // where its matches of a kind count, each place once
	crowded *route.Closed    // why nothing goes by its routes, where the hosts below its patterns are too many for them; see crowded.go
}

// virtualService reads one; find gives the routes of a delegate.
func virtualService(o *config.Object, spec *networking.VirtualService, cfg *mesh.Config, find func(config.Key) (route.Routes, bool)) *VirtualService {
	v := &VirtualService{
		Key: o.Key, Revision: o.Revision, Created: o.Created, Gateways: route.Gateways(spec.Gateways, o.Namespace),
		ExportTo: exportTo(spec.ExportTo, o.Namespace, cfg.DefaultVirtualServiceExportTo),
		Routes:   route.Parse(o, spec).Resolve(len(spec.Hosts), find),
	}
	for _, h := range spec.Hosts {
		v.Hosts = append(v.Hosts, route.FullName(h, o.Namespace))
	}
	slices.Sort(v.Hosts)
	v.Hosts = slices.Compact(v.Hosts)
	return v.seal()
}

// seal gives it its hash, and what follows from its routes.
func (v *VirtualService) seal() *VirtualService {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("registry: a VirtualService does not marshal: %v", err)) // no field of it can fail
	}
	v.Hash, v.ends, v.rows, v.places = xxhash.Sum64(text), v.destinations(), v.Rows(), v.placesOfMatches()
	return v
}

// At says whether it counts at sidecars (route.Mesh), or at a Gateway object ("NAMESPACE/NAME").
func (v *VirtualService) At(gateway string) bool { return slices.Contains(v.Gateways, gateway) }

// compare puts the oldest first, then by name. Routes of the Gateway API come after objects that lead a host alone.
func (v *VirtualService) compare(o *VirtualService) int {
	if v.Joined != o.Joined {
		if v.Joined {
			return +1
		}
		return -1
	}
	if c := v.Created.Compare(o.Created); c != 0 {
		return c
	}
	return v.Key.Compare(o.Key)
}

// CountsAt says whether any of the routes that a server of a kind follows counts at a place.
func (v *VirtualService) CountsAt(serves ServerKind, p route.Scope) bool {
	return slices.ContainsFunc(v.places[kindOfMatches(serves)], func(w route.Where) bool { return w.At(p) })
}

// placesOfMatches are the places that its matches name, by their kinds, each once: there may be many more matches.
func (v *VirtualService) placesOfMatches() (out [3][]route.Where) {
	seen := map[string]bool{}
	note := func(kind matchesKind, w route.Where) {
		id := fmt.Sprint(kind, w.Port, w.Named, w.SourceNamespace, "|", selectorText(w.SourceLabels), "|", strings.Join(w.Gateways, ","))
		if !seen[id] {
			seen[id] = true
			out[kind] = append(out[kind], w)
		}
	}
	v.eachMatch(note)
	return out
}

// wheres are the places that its matches name.
func (v *VirtualService) wheres() (out []route.Where) {
	if v == nil {
		return nil
	}
	for _, h := range v.HTTP {
		for _, m := range h.Matches {
			out = append(out, m.Where)
		}
	}
	for _, list := range [...][]route.L4{v.TLS, v.TCP} {
		for _, t := range list {
			for _, m := range t.Matches {
				out = append(out, m.Where)
			}
		}
	}
	return out
}

// alikeForAll says whether all who ask for its hosts follow it, from wherever: it is about Services of its own namespace, and exported to all.
func (v *VirtualService) alikeForAll() bool {
	return v.ExportTo.All && !slices.ContainsFunc(v.Hosts, func(h string) bool { return !isServiceOf(h, v.Key.Namespace) }) &&
		!slices.ContainsFunc(v.wheres(), ofSource)
}

func ofSource(w route.Where) bool { return w.SourceNamespace != "" || len(w.SourceLabels) > 0 }

// sources are the sets of sourceLabels in it, each once.
func (v *VirtualService) sources() (out []map[string]string) {
	seen := map[string]bool{}
	for _, w := range v.wheres() {
		if text := selectorText(w.SourceLabels); text != "" && !seen[text] {
			seen[text] = true
			out = append(out, w.SourceLabels)
		}
	}
	return out
}

// End is a destination as an object of a namespace names it: of what that namespace does not see, another's object may lead there, and its own does not.
type End struct{ Namespace, Host string }

// Compare puts them in order of their hosts.
func (e End) Compare(other End) int {
	return cmp.Or(cmp.Compare(e.Host, other.Host), cmp.Compare(e.Namespace, other.Namespace))
}

// EndsBy are the destinations of its routes, each once for every namespace of whose objects these are: its own, and those of delegates.
func (v *VirtualService) EndsBy() map[End]bool {
	if v.ends == nil { // none of it is led
		return nil
	}
	return v.namedEnds()
}

func (v *VirtualService) namedEnds() map[End]bool {
	out := map[End]bool{}
	for _, h := range v.HTTP {
		ns := h.From.Namespace
		for _, d := range h.Destinations {
			out[End{ns, d.Host}] = true
		}
		for _, m := range h.Mirrors {
			out[End{ns, m.Host}] = true
		}
		if h.Asks != nil {
			out[End{ns, h.Asks.Host}] = true
		}
	}
	for _, list := range [...][]route.L4{v.TLS, v.TCP} {
		for _, t := range list {
			for _, d := range t.Destinations {
				out[End{t.From.Namespace, d.Host}] = true
			}
		}
	}
	maps.DeleteFunc(out, func(e End, _ bool) bool { return e.Host == "" }) // a backend that may not be named
	return out
}

// destinations are the hosts that its routes lead to, each once.
func (v *VirtualService) destinations() map[string]bool {
	out := map[string]bool{}
	for e := range v.namedEnds() {
		out[e.Host] = true
	}
	return out
}

// viewers are the namespaces whose workloads follow it where others do not: its own, those that it is exported to by name,
// and those that a match is about.
func (v *VirtualService) viewers() []string {
	if v == nil {
		return nil
	}
	out := append([]string{v.Key.Namespace}, v.ExportTo.Namespaces...)
	for _, w := range v.wheres() {
		if w.SourceNamespace != "" {
			out = append(out, w.SourceNamespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Routes finds the VirtualService that leads a workload in ns to a service; nil where none does. The exact host comes before patterns,
// the longest of these first; of one host's that of the workload's own namespace, then that of whoever registered the service, then the
// root namespace's. Of several of one namespace the oldest counts, alone, as in Istio for requests. One that has no
// match for workloads of the namespace with what selects them is none.
func (s *Snapshot) Routes(svc *Service, ns string, selected SelectorKey) *VirtualService {
	if v := s.routes(svc, ns); v != nil && v.leads(ns, selected) {
		return v
	}
	return nil
}

// RoutesBySource gives the one that counts for a service in a namespace if any of its matches in the mesh is for some clients alone
// (sourceNamespace, sourceLabels); else nil.
func (s *Snapshot) RoutesBySource(svc *Service, ns string) *VirtualService {
	v := s.routes(svc, ns)
	if !slices.ContainsFunc(v.wheres(), func(w route.Where) bool { return ofSource(w) && slices.Contains(w.Gateways, route.Mesh) }) {
		return nil
	}
	return v
}

// routes is that one, whether it has matches for a workload or not.
func (s *Snapshot) routes(svc *Service, ns string) *VirtualService {
	if s.virtual.Len() == 0 {
		return nil
	}
	for candidate := tailOf(svc.Host); candidate != ""; candidate = widerRule(candidate) {
		list, _ := s.virtual.Get(candidate)
		for _, in := range [...]string{ns, svc.Namespace, s.Mesh.RootNamespace} {
			i := slices.IndexFunc(list, func(v *VirtualService) bool {
				return v.Key.Namespace == in && v.At(route.Mesh) && v.ExportTo.Includes(ns)
			})
			if i >= 0 {
				return s.counted(list[i], svc, candidate)
			}
		}
	}
	return nil
}

// leads says whether a match is for workloads of a namespace with what selects them.
func (v *VirtualService) leads(ns string, selected SelectorKey) bool {
	return slices.ContainsFunc(v.wheres(), func(w route.Where) bool {
		return w.At(route.Scope{Gateway: route.Mesh, Ports: []uint32{w.Port}, Namespace: ns, Source: selected})
	})
}

// GatewayRoutes gives the VirtualServices that lead from a Gateway object to a service, in order of age: all of them count,
// as in Istio (see route.Join). They are those of the namespace of the client, of that which registered the service, or of the
// root namespace: of the first that has any, for the exact host before patterns. A "" client is nobody's.
func (s *Snapshot) GatewayRoutes(svc *Service, client string, gateway config.Key) (out []*VirtualService) {
	if s.virtual.Len() == 0 {
		return nil
	}
	g := s.Gateway(gateway)
	if g == nil {
		return nil
	}
	at := gateway.Namespace + "/" + gateway.Name
	for candidate := tailOf(svc.Host); candidate != ""; candidate = widerRule(candidate) {
		list, _ := s.virtual.Get(candidate)
		for _, in := range [...]string{client, svc.Namespace, s.Mesh.RootNamespace} {
			for _, v := range list {
				if in != "" && v.Key.Namespace == in && v.At(at) && v.ExportTo.Includes(gateway.Namespace) && g.Lets(in, svc.Host) {
					out = append(out, s.counted(v, svc, candidate))
				}
			}
			if len(out) > 0 {
				return out
			}
		}
	}
	return nil
}

// Led says whether some VirtualService is for a host.
func (s *Snapshot) Led(host string) bool {
	if s.virtual.Len() == 0 {
		return false
	}
	for range s.covering(host) {
		return true
	}
	return false
}

// BoundClients are the namespaces, beside the service's own and the root namespace, that have VirtualServices of their own for it
// at a Gateway, in order.
func (s *Snapshot) BoundClients(svc *Service, gateway config.Key) (out []string) {
	if s.virtual.Len() == 0 {
		return nil
	}
	at := gateway.Namespace + "/" + gateway.Name
	for v := range s.covering(svc.Host) {
		ns := v.Key.Namespace
		if v.At(at) && ns != svc.Namespace && ns != s.Mesh.RootNamespace && svc.ExportTo.Includes(ns) && !slices.Contains(out, ns) {
			out = append(out, ns)
		}
	}
	slices.Sort(out)
	return out
}

// covering goes through the VirtualServices whose hosts cover one.
func (s *Snapshot) covering(host string) iter.Seq[*VirtualService] {
	return func(yield func(*VirtualService) bool) {
		for candidate := tailOf(host); candidate != ""; candidate = widerRule(candidate) {
			list, _ := s.virtual.Get(candidate)
			for _, v := range list {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// Via is the service as it is reached by an egress gateway that a route leads to, whatever its entry says.
func (s *Snapshot) Via(svc *Service, ref Ref) *Service {
	if svc.Exit == ref {
		return svc
	}
	via := svc.With(func(t *Traits) { t.Exit, t.RootExit, t.Borrowed = ref, false, !s.IsExit(ref) })
	via.Hash = via.Hash*1099511628211 ^ xxhash.Sum64String(ref.String()) // another way, another service
	return via
}

// Ends are the hosts that its routes lead to. Nobody may change them.
func (v *VirtualService) Ends() map[string]bool { return v.ends }

// Read is the service as requests to its ports of TLS see it: a proxy wraps them.
func (s *Service) Read() *Service {
	if !slices.ContainsFunc(s.Ports, func(p Port) bool { return p.Protocol == TLS }) {
		return s
	}
	read := *s
	read.Ports = slices.Clone(s.Ports)
	for i := range read.Ports {
		if read.Ports[i].Protocol == TLS {
			read.Ports[i].Protocol = HTTP
		}
	}
	read.Hash ^= 0x72656164 // another value
	return &read
}
