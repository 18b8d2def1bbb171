package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// A VirtualService for a Gateway is told for each name that meets the Gateway's, at each of its servers. This file bounds the matches that it comes to so
// (docs/adr/0222-gateways-of-many-ports.md), for the Gateways of each namespace by themselves: what one writes into its Gateways ends nothing of the VirtualService at another's. Where
// there are too many, nothing goes by it at these Gateways, and a row for each name at each server says so; where even these rows are too many it is not told at all.

// rowsOfOne is how often as many matches as one VirtualService may have are told of it at the Gateways of one namespace: most have a port for requests and one for TLS.
const rowsOfOne = 4

// FewerPorts is what to do where there are too many.
const FewerPorts = "name fewer Gateways, or such with fewer servers, or write its hosts and matches into several VirtualServices"

// crowdedAt is a VirtualService as it counts at the Gateways of a namespace, where it comes to too much.
type crowdedAt struct {
	*VirtualService
	why  string
	told bool // rows say that it is closed
}

// AtGateway is a VirtualService as it counts at a Gateway that it names, "NAMESPACE/NAME"; nil where nothing of it is told there.
func (s *Snapshot) AtGateway(v *VirtualService, gateway string) *VirtualService {
	if by := s.crowdedAt[v.Key]; by != nil {
		ns, _, _ := strings.Cut(gateway, "/")
		if c, crowded := by[ns]; crowded && !c.told {
			return nil
		} else if crowded {
			return c.VirtualService
		}
	}
	return v
}

// CrowdedAt is why nothing goes by a VirtualService at Gateways of namespaces, in their order.
func (s *Snapshot) CrowdedAt(key config.Key) (whys []string) {
	for _, ns := range slices.Sorted(maps.Keys(s.crowdedAt[key])) {
		whys = append(whys, s.crowdedAt[key][ns].why)
	}
	return whys
}

// Untold is a VirtualService of which nothing is told at a gateway's pods, though it is for a name there, and why; false where there is none.
func (s *Snapshot) Untold(i Ingress, name string) (by config.Key, why string, is bool) {
	opened := s.Opened(i)
	for key, at := range s.crowdedAt {
		for ns, c := range at {
			covers := !c.told && slices.ContainsFunc(c.Hosts, func(h string) bool { return Covers(h, name) })
			if covers && (!is || key.Compare(by) < 0) && slices.ContainsFunc(c.Gateways, func(g string) bool { return strings.HasPrefix(g, ns+"/") && len(opened.Of(g)) > 0 }) {
				by, why, is = key, c.why, true
			}
		}
	}
	return by, why, is
}

// toldAt is what a VirtualService comes to at the Gateways of a namespace.
type toldAt struct{ matches, names int }

// toldAtGateways counts it by their namespaces.
func (b *batch) toldAtGateways(v *VirtualService) map[string]toldAt {
	out := map[string]toldAt{}
	if v == nil || v.ofGatewayAPI() || v.rows*b.namesAtMost(v) <= rowsOfOne*b.next.mostRows {
		return out
	}
	matches := v.matchesAt()
	for _, at := range v.Gateways {
		ns, _, _ := strings.Cut(at, "/")
		for _, s := range b.serversOf(at) {
			if s.Serves == PassesMesh || s.Serves == NotServed {
				continue
			}
			names := 0
			for _, host := range v.Hosts {
				names += len(letsOf(s.Hosts, v.Key.Namespace, host))
			}
			if s.Serves.Nameless() {
				names = min(names, 1)
			}
			here := placeOfMatches{at, kindOfMatches(s.Serves), s.Port}
			anyPort := here
			anyPort.port = 0
			told := out[ns]
			told.names += names
			told.matches += names * max(matches[here]+matches[anyPort], 1)
			out[ns] = told
		}
	}
	return out
}

// namesAtMost is by how many names a VirtualService may be asked for, at each server of its Gateways, at most.
func (b *batch) namesAtMost(v *VirtualService) (n int) {
	for _, at := range v.Gateways {
		for _, s := range b.serversOf(at) {
			n += len(v.Hosts) + len(s.Hosts)
		}
	}
	return n
}

// placeOfMatches is where matches count: at a Gateway, for requests, TLS or TCP, and at one of its ports, or (0) at all.
type placeOfMatches struct {
	gateway string
	kind    matchesKind
	port    uint32
}

type matchesKind uint8

const (
	matchesOfHTTP matchesKind = iota
	matchesOfTLS
	matchesOfTCP
)

func kindOfMatches(serves ServerKind) matchesKind {
	switch {
	case serves.ReadsRequests():
		return matchesOfHTTP
	case serves == PassesTLS:
		return matchesOfTLS
	default:
		return matchesOfTCP
	}
}

// matchesAt counts the matches by where they count.
func (v *VirtualService) matchesAt() map[placeOfMatches]int {
	out := map[placeOfMatches]int{}
	v.eachMatch(func(kind matchesKind, w route.Where) {
		for _, g := range w.Gateways {
			out[placeOfMatches{g, kind, w.Port}]++
		}
	})
	return out
}

// eachMatch goes through its matches, by what they are of.
func (v *VirtualService) eachMatch(note func(kind matchesKind, w route.Where)) {
	for _, h := range v.HTTP {
		for _, m := range h.Matches {
			note(matchesOfHTTP, m.Where)
		}
	}
	for _, t := range v.TLS {
		for _, m := range t.Matches {
			note(matchesOfTLS, m.Where)
		}
	}
	for _, t := range v.TCP {
		for _, m := range t.Matches {
			note(matchesOfTCP, m.Where)
		}
	}
}

// judgeAtGateways says again at the Gateways of which namespaces a VirtualService comes to too much.
func (b *batch) judgeAtGateways(key config.Key) {
	v, most := b.index.virtual.made[key], rowsOfOne*b.next.mostRows
	is := map[string]crowdedAt{}
	for ns, told := range b.toldAtGateways(v) {
		if told.matches <= most {
			continue
		}
		c := crowdedAt{told: told.names <= b.next.mostRows}
		c.why = fmt.Sprintf("it comes to more than %d matches at the ports of Gateways of namespace %s, where each is told for each name, so that none of these is made", most, ns)
		closed := *v
		closed.Hash, closed.ends = ^v.Hash, nil // another value
		closed.crowded = &route.Closed{Why: "gateways: " + c.why, Fix: FewerPorts}
		c.VirtualService = &closed
		is[ns] = c
	}
	if len(is) == 0 && b.next.crowdedAt[key] == nil {
		return
	}
	if !b.crowdedAtCopied {
		b.next.crowdedAt, b.crowdedAtCopied = maps.Clone(b.next.crowdedAt), true
	}
	if b.next.crowdedAt == nil {
		b.next.crowdedAt = map[config.Key]map[string]crowdedAt{}
	}
	if b.next.crowdedAt[key] = is; len(is) == 0 {
		delete(b.next.crowdedAt, key)
	}
}
