package registry

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// A VirtualService for a pattern is told for each host that somebody registers below it, with all of its matches. This file bounds the two together: where a namespace registers
// more such hosts than go with the matches (route.MostRows), nothing goes to these by the VirtualService, since what its routes deny must not pass without them. Each
// namespace's hosts are counted for themselves, so that what one registers ends nobody else's routes (docs/adr/0209-hosts-below-a-pattern.md).

// FewerMatches is what to do where there are too many.
const FewerMatches = "write fewer matches, or VirtualServices for fewer hosts, or name those in spec.hosts that need them"

// Crowded says why nothing goes by a VirtualService, which tells so many matches for each host, to what a namespace registers below its patterns.
func Crowded(rows int, namespace string, most int) string {
	return fmt.Sprintf("it tells proxies of %d matches for each host, and namespace %s registers more than %d hosts below its patterns, so that none of these is made", rows, namespace, most/rows)
}

// belowPattern is what is registered below a pattern that VirtualServices are for.
type belowPattern struct {
	users int            // these
	hosts map[string]int // counted by the namespaces that register them; nil before they are
}

// isTail says whether hosts are found below it, or it is a host itself.
func isTail(candidate string) bool { return candidate[0] == '.' || candidate == "*" }

// tails are what its patterns are found by; none of routes of the Gateway API, which are told for their own hosts alone.
func (v *VirtualService) tails() iter.Seq[string] {
	return func(yield func(string) bool) {
		if v.Joined || v.ofGatewayAPI() {
			return
		}
		for _, h := range v.Hosts {
			if tail := tailOf(h); isTail(tail) && !yield(tail) {
				return
			}
		}
	}
}

// counted is a VirtualService as it counts for what is found by a candidate of its hosts.
func (s *Snapshot) counted(v *VirtualService, svc *Service, candidate string) *VirtualService {
	if len(s.crowded) > 0 && isTail(candidate) {
		return cmp.Or(s.crowded[v.Key][svc.Namespace], v)
	}
	return v
}

// crowdedBy is a VirtualService as it counts for the hosts below its patterns of a namespace that registers too many.
func (v *VirtualService) crowdedBy(namespace string, most int) *VirtualService {
	out := *v
	out.Hash, out.ends = ^v.Hash, nil // another value
	out.crowded = &route.Closed{Why: "hosts: " + Crowded(v.rows, namespace, most), Fix: FewerMatches}
	return &out
}

// CrowdedBy is the VirtualService of a service's own namespace, or of the root namespace, by which nothing goes to it since there are too many hosts like it, and why; false
// where there is none.
func (s *Snapshot) CrowdedBy(svc *Service) (by config.Key, why string, crowded bool) {
	if len(s.crowded) == 0 {
		return by, "", false
	}
	for v := range s.covering(svc.Host) {
		theirs := v.Key.Namespace == svc.Namespace || v.Key.Namespace == s.Mesh.RootNamespace
		if theirs && s.crowded[v.Key][svc.Namespace] != nil && !slices.Contains(v.Hosts, svc.Host) {
			return v.Key, Crowded(v.rows, svc.Namespace, s.mostRows), true
		}
	}
	return by, "", false
}

// HTTPAt gives its routes of requests that count at a place.
func (v *VirtualService) HTTPAt(p route.Scope) []route.HTTP {
	if v.crowded == nil {
		return route.HTTPAt(v.HTTP, p)
	}
	return v.ClosedHTTPAt(p, route.HTTP{From: v.Key, Revision: v.Revision, Field: "hosts", Closed: v.crowded})
}

// TLSAt gives those of TLS.
func (v *VirtualService) TLSAt(p route.Scope) []route.L4 { return v.l4At(v.TLS, p) }

// TCPAt gives those of other connections.
func (v *VirtualService) TCPAt(p route.Scope) []route.L4 { return v.l4At(v.TCP, p) }

func (v *VirtualService) l4At(list []route.L4, p route.Scope) []route.L4 {
	if v.crowded == nil {
		return route.L4At(list, p)
	}
	return route.ClosedL4At(list, p, route.L4{From: v.Key, Revision: v.Revision, Field: "hosts", Closed: v.crowded})
}

// noteBelow counts a VirtualService among those that are for its patterns, or no more.
func (b *batch) noteBelow(v *VirtualService, by int) {
	for tail := range v.tails() {
		p := b.index.virtual.below[tail]
		if p == nil {
			p = &belowPattern{}
			b.index.virtual.below[tail] = p
		}
		p.users += by
		b.recount[tail] = true
	}
	b.rejudged[v.Key] = true
}

// settleCrowded counts what this batch registered below patterns, and marks the hosts for which routes count that did not, or the other way round. Hosts that came and went
// cost their patterns each; all of a pattern's are gone through when the first VirtualService for it comes.
func (b *batch) settleCrowded() {
	below := b.index.virtual.below
	turned := b.countBelow(below)
	for tail := range b.recount {
		switch p := below[tail]; {
		case p.users == 0:
			delete(below, tail)
		case p.hosts == nil:
			p.hosts = b.registeredBelow(tail)
		}
	}
	for key := range b.rejudged {
		b.putCrowded(key, nil) // what it was is told anew in any case
		b.judge(key, b.namespacesBelow(key))
	}
	for tail, namespaces := range turned {
		list, _ := b.virtual.Get(tail)
		for _, v := range list {
			if below[tail] != nil && !b.rejudged[v.Key] {
				b.judge(v.Key, namespaces)
			}
		}
	}
}

// countBelow adds what hosts that this batch sealed are registered by now, and takes away what they were, and gives the namespaces of which other hosts are below a pattern.
func (b *batch) countBelow(below map[string]*belowPattern) (turned map[string]map[string]bool) {
	if len(below) == 0 {
		return nil
	}
	turned = map[string]map[string]bool{}
	for host, was := range b.sealed {
		now, _ := b.hosts.Get(host)
		for ns, by := range moved(was, now) {
			for tail := tailOf(host); tail != ""; tail = widerRule(tail) {
				p := below[tail]
				if p == nil || p.hosts == nil {
					continue // what is new is counted with all
				}
				if p.hosts[ns] += by; p.hosts[ns] == 0 {
					delete(p.hosts, ns)
				}
				if turned[tail] == nil {
					turned[tail] = map[string]bool{}
				}
				turned[tail][ns] = true
			}
		}
	}
	return turned
}

// moved are the namespaces that register a host and did not (+1), or did and do not (-1).
func moved(was, now []*Service) map[string]int {
	out := map[string]int{}
	for ns := range namespacesOf(now, nil) {
		out[ns] = +1
	}
	for ns := range namespacesOf(was, nil) {
		if out[ns]--; out[ns] == 0 {
			delete(out, ns)
		}
	}
	return out
}

// coveredBy gives the hosts that are found by the tail of a pattern.
func (b *batch) coveredBy(tail string, each func(host string)) {
	b.covered("*"+strings.TrimPrefix(tail, "*"), each)
}

// registeredBelow counts the hosts below a pattern.
func (b *batch) registeredBelow(tail string) map[string]int {
	out := map[string]int{}
	b.coveredBy(tail, func(host string) {
		list, _ := b.hosts.Get(host)
		for ns := range namespacesOf(list, nil) {
			out[ns]++
		}
	})
	return out
}

// namespacesBelow are those that register something below a VirtualService's patterns.
func (b *batch) namespacesBelow(key config.Key) map[string]bool {
	out := map[string]bool{}
	if v := b.index.virtual.made[key]; v != nil {
		for tail := range v.tails() {
			for ns := range b.index.virtual.below[tail].hosts {
				out[ns] = true
			}
		}
	}
	return out
}

// judge says again of which namespaces too many hosts are below a VirtualService's patterns.
func (b *batch) judge(key config.Key, namespaces map[string]bool) {
	v, was := b.index.virtual.made[key], b.next.crowded[key]
	is := was
	var turned []string
	for ns := range namespaces {
		if b.crowds(v, ns) == (was[ns] != nil) {
			continue
		}
		if turned = append(turned, ns); len(turned) == 1 {
			if is = maps.Clone(was); is == nil {
				is = map[string]*VirtualService{}
			}
		}
		if was[ns] != nil {
			delete(is, ns)
		} else {
			is[ns] = v.crowdedBy(ns, b.next.mostRows)
		}
	}
	if len(turned) > 0 {
		b.putCrowded(key, is)
		b.touchBelow(v, turned)
	}
}

// putCrowded notes as what a VirtualService counts for namespaces that register too many hosts below its patterns; nothing for none.
func (b *batch) putCrowded(key config.Key, is map[string]*VirtualService) {
	if len(is) == 0 && b.next.crowded[key] == nil {
		return
	}
	if !b.crowdedCopied {
		b.next.crowded, b.crowdedCopied = maps.Clone(b.next.crowded), true
	}
	if b.next.crowded == nil {
		b.next.crowded = map[config.Key]map[string]*VirtualService{}
	}
	if b.next.crowded[key] = is; len(is) == 0 {
		delete(b.next.crowded, key)
	}
}

// crowds says whether a namespace registers too many hosts below a VirtualService's patterns.
func (b *batch) crowds(v *VirtualService, ns string) bool {
	if v == nil {
		return false
	}
	hosts := 0
	for tail := range v.tails() {
		hosts += b.index.virtual.below[tail].hosts[ns]
	}
	return hosts*v.rows > b.next.mostRows
}

// touchBelow marks the hosts of some namespaces below a VirtualService's patterns.
func (b *batch) touchBelow(v *VirtualService, namespaces []string) {
	for tail := range v.tails() {
		b.coveredBy(tail, func(host string) {
			list, _ := b.hosts.Get(host)
			if slices.ContainsFunc(list, func(svc *Service) bool { return slices.Contains(namespaces, svc.Namespace) }) {
				b.touched[host] = true
			}
		})
	}
}
