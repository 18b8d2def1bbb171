package registry

import (
	"slices"
	"strings"
)

// What VirtualServices and DestinationRules for a pattern say is told for each host that somebody registers below it. This file counts what that is, by the namespaces that
// register it and as it comes and goes: crowded.go and crowdedrules.go bound it together with what the object says.

// belowPattern is what is registered below a pattern that VirtualServices, or DestinationRules, are for.
type belowPattern struct {
	users int               // these
	of    map[string]weight // by the namespaces that register it; nil before it is counted
}

// weight is how much a namespace registers below a pattern.
type weight struct {
	hosts  int
	ports  int // of these
	direct int // of these, at hosts that leave straight from the pods: what tells subsets apart
	told   int // these, and one more for each EndpointsAsPort endpoints that a proxy is told at each
}

// EndpointsAsPort is how many endpoints of a host take what a port does.
const EndpointsAsPort = MostSubsetEndpoints / MostSubsetClusters

func (w weight) plus(o weight, times int) weight {
	return weight{w.hosts + times*o.hosts, w.ports + times*o.ports, w.direct + times*o.direct, w.told + times*o.told}
}

// weightsOf says how much a host is of each namespace that registers it: of several registrations of one, a workload goes by one.
func weightsOf(list []*Service) map[string]weight {
	out := map[string]weight{}
	for _, svc := range list {
		is := weight{hosts: 1, ports: len(svc.Ports)}
		if svc.Exit.IsZero() {
			is.direct = is.ports
			is.told = is.ports * max(1, (len(svc.Endpoints)+EndpointsAsPort-1)/EndpointsAsPort)
		}
		was := out[svc.Namespace]
		out[svc.Namespace] = weight{1, max(was.ports, is.ports), max(was.direct, is.direct), max(was.told, is.told)}
	}
	return out
}

// isTail says whether hosts are found below it, or it is a host itself.
func isTail(candidate string) bool { return candidate[0] == '.' || candidate == "*" }

// useBelow counts what is told for each host below a pattern, or no more.
func (b *batch) useBelow(tail string, by int) {
	p := b.index.below[tail]
	if p == nil {
		p = &belowPattern{}
		b.index.below[tail] = p
	}
	p.users += by
	b.recount[tail] = true
}

// settleCrowded counts what this batch registered below patterns, and marks the hosts for which something counts that did not, or the other way round. Hosts that came and went
// cost their patterns each; all of a pattern's are gone through when the first object for it comes.
func (b *batch) settleCrowded() {
	turned := b.countBelow()
	for tail := range b.recount {
		switch p := b.index.below[tail]; {
		case p.users == 0:
			delete(b.index.below, tail)
		case p.of == nil:
			p.of = b.registeredBelow(tail)
		}
	}
	b.settleCrowdedRoutes(turned)
	b.settleCrowdedRules(turned)
}

// countBelow adds what hosts that this batch sealed are registered by now, and takes away what they were, and gives the namespaces of which something else is below a pattern.
func (b *batch) countBelow() (turned map[string]map[string]bool) {
	below := b.index.below
	if len(below) == 0 {
		return nil
	}
	turned = map[string]map[string]bool{}
	for host, was := range b.sealed {
		now, _ := b.hosts.Get(host)
		for ns, by := range moved(was, now) {
			for tail := tailOf(host); tail != ""; tail = widerRule(tail) {
				p := below[tail]
				if p == nil || p.of == nil {
					continue // what is new is counted with all
				}
				if p.of[ns] = p.of[ns].plus(by, 1); p.of[ns] == (weight{}) {
					delete(p.of, ns)
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

// moved is by how much a host is more, or less, of the namespaces of which it is another part than it was.
func moved(was, now []*Service) map[string]weight {
	out := weightsOf(now)
	for ns, w := range weightsOf(was) {
		if out[ns] = out[ns].plus(w, -1); out[ns] == (weight{}) {
			delete(out, ns)
		}
	}
	return out
}

// coveredBy gives the hosts that are found by the tail of a pattern.
func (b *batch) coveredBy(tail string, each func(host string)) {
	b.covered("*"+strings.TrimPrefix(tail, "*"), each)
}

// registeredBelow counts what is below a pattern.
func (b *batch) registeredBelow(tail string) map[string]weight {
	out := map[string]weight{}
	b.coveredBy(tail, func(host string) {
		list, _ := b.hosts.Get(host)
		for ns, w := range weightsOf(list) {
			out[ns] = out[ns].plus(w, 1)
		}
	})
	return out
}

// namespacesBelow are those that register something below a pattern.
func (b *batch) namespacesBelow(tail string, into map[string]bool) map[string]bool {
	if into == nil {
		into = map[string]bool{}
	}
	for ns := range b.index.below[tail].of {
		into[ns] = true
	}
	return into
}

// touchBelow marks the hosts of some namespaces below a pattern.
func (b *batch) touchBelow(tail string, namespaces []string) {
	b.coveredBy(tail, func(host string) {
		list, _ := b.hosts.Get(host)
		if slices.ContainsFunc(list, func(svc *Service) bool { return slices.Contains(namespaces, svc.Namespace) }) {
			b.touched[host] = true
		}
	})
}
