package registry

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

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
		b.useBelow(tail, by)
	}
	b.rejudged[v.Key] = true
}

// settleCrowdedRoutes says again which namespaces register too many hosts for VirtualServices that are others now, and of those that turned for the others.
func (b *batch) settleCrowdedRoutes(turned map[string]map[string]bool) {
	for key := range b.rejudged {
		b.putCrowded(key, nil) // what it was is told anew in any case
		var namespaces map[string]bool
		if v := b.index.virtual.made[key]; v != nil {
			for tail := range v.tails() {
				namespaces = b.namespacesBelow(tail, namespaces)
			}
		}
		b.judge(key, namespaces)
	}
	for tail, namespaces := range turned {
		list, _ := b.virtual.Get(tail)
		for _, v := range list {
			if b.index.below[tail] != nil && !b.rejudged[v.Key] {
				b.judge(v.Key, namespaces)
			}
		}
	}
}

// judge says again of which namespaces too many hosts are below a VirtualService's patterns.
func (b *batch) judge(key config.Key, namespaces map[string]bool) {
	v, was := b.index.virtual.made[key], b.next.crowded[key]
	is := was
	var turned []string
	for ns := range namespaces {
		crowds := b.crowds(v, ns)
		if crowds == (was[ns] != nil) {
			continue
		}
		if turned = append(turned, ns); len(turned) == 1 {
			if is = maps.Clone(was); is == nil {
				is = map[string]*VirtualService{}
			}
		}
		if crowds {
			is[ns] = v.crowdedBy(ns, b.next.mostRows)
		} else {
			delete(is, ns)
		}
	}
	if len(turned) > 0 {
		b.putCrowded(key, is)
		for tail := range v.tails() {
			b.touchBelow(tail, turned)
		}
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
		hosts += b.index.below[tail].of[ns].hosts
	}
	return hosts*v.rows > b.next.mostRows
}
