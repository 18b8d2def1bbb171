package registry

import (
	"iter"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
)

// This file says who governs a name for a namespace, where several registered it or patterns that cover it: the one place
// for that order (docs/adr/0012-neighbours.md). In words: what a namespace registered itself comes first, also by a
// pattern; then the cluster's Services; then the root namespace; then all others, of which nothing counts for a name that
// one of the first three has. Among equals the exact name comes before patterns, the longer before the shorter, and of one
// name the oldest object.

// rank is how near a registration is to those who ask: lower governs.
type rank int

const (
	rankOwn     rank = iota // of the asker's own namespace
	rankCluster             // a Kubernetes Service
	rankRoot                // of the root namespace
	rankOther
	rankNone
)

// rankOf ranks a registration for askers in ns; "" is a namespace that registers nothing.
func (s *Snapshot) rankOf(svc *Service, ns string) rank {
	if svc.Namespace != ns && svc.Source.Kind == config.KindService {
		return rankCluster
	}
	return s.rankOfNamespace(svc.Namespace, ns)
}

// rankOfNamespace ranks what a namespace writes, whatever it is, for another one.
func (s *Snapshot) rankOfNamespace(of, ns string) rank {
	switch of {
	case ns:
		return rankOwn
	case s.Mesh.RootNamespace:
		return rankRoot
	default:
		return rankOther
	}
}

// Foreign says whether a registration is another namespace's in ns's eyes: neither its own, nor a Service of the
// cluster, nor the root namespace's.
func (s *Snapshot) Foreign(svc *Service, ns string) bool { return s.rankOf(svc, ns) == rankOther }

// seen gives a registration as a workload in ns has it, which may be with fewer ports; nil where it is none at all.
func (s *Snapshot) seen(svc *Service, ns string, scope *SidecarScope) *Service {
	if !svc.ExportTo.Includes(ns) || s.isClusterName(svc, ns) || svc.Unregistered && s.AllowAny(scope) {
		return nil
	}
	return scope.narrow(ns, svc)
}

// best picks, of the registrations of exactly one host, the one that comes first for ns, whatever covers the host beside.
func (s *Snapshot) best(list []*Service, ns string, scope *SidecarScope) (*Service, rank) {
	var found *Service
	at := rankNone
	for _, svc := range list { // in order of age
		r := s.rankOf(svc, ns)
		kube := svc.Source.Kind == config.KindService
		if r > at || (r == at && !(kube && found.Source.Kind != config.KindService)) {
			continue
		}
		if seen := s.seen(svc, ns, scope); seen != nil {
			found, at = seen, r
		}
	}
	return found, at
}

// Visible picks the registration of exactly this host (a pattern is a host of its own) that governs it for a workload in
// namespace ns; nil where none does, also since a pattern that comes first covers the host. A scope narrows the
// choice, and may leave out some of a registration's ports; nil does not.
func (s *Snapshot) Visible(host, ns string, scope *SidecarScope) *Service {
	return s.visible(s.Services(host), ns, scope)
}

// visible is Visible for the registrations of one host.
func (s *Snapshot) visible(list []*Service, ns string, scope *SidecarScope) *Service {
	svc, at := s.best(list, ns, scope)
	if svc == nil || (at >= rankRoot && s.patternOf(svc.Host, at, ns, scope)) {
		return nil
	}
	return s.In(svc, ns)
}

// patternOf says whether a pattern that covers the host was registered by somebody who comes before a rank. The root
// namespace's exact names yield to a namespace's own patterns, those of others to both.
func (s *Snapshot) patternOf(host string, before rank, ns string, scope *SidecarScope) bool {
	for list := range s.patternsOver(host) {
		if _, at := s.best(list, ns, scope); at < before {
			return true
		}
	}
	return false
}

// Match finds the registration that governs a name which a workload in ns tries on a port: of those that have the port.
// Port 0 asks for any. Registrations of other namespaces count only for names that neither the workload's own, the cluster
// nor the root namespace has, on whatever port.
func (s *Snapshot) Match(name string, port uint32, ns string, scope *SidecarScope) *Service {
	name = CanonicalHost(name)
	var found *Service
	at, held := rankNone, false
	for svc := range s.Governing(name, ns, scope) {
		r := s.rankOf(svc, ns)
		held = held || r < rankOther
		if _, ok := svc.Port(port); (ok || port == 0) && found == nil {
			found, at = svc, r
		} else if ok && at == rankOther && r < rankOther {
			found, at = svc, r
		}
	}
	if at == rankOther && held {
		return nil
	}
	return found
}

// Governing goes through what Visible gives for a name and for the patterns that cover it, the longest first, where there is
// anything.
func (s *Snapshot) Governing(name, ns string, scope *SidecarScope) iter.Seq[*Service] {
	return func(yield func(*Service) bool) {
		if svc := s.Visible(name, ns, scope); svc != nil && !yield(svc) {
			return
		}
		for list := range s.patternsOver(name) {
			if svc := s.visible(list, ns, scope); svc != nil && !yield(svc) {
				return
			}
		}
	}
}

// Shut gives the ports at which a host, that a workload in ns sees as svc, would fall to a pattern of another namespace:
// on those it goes where names go that nobody registered.
func (s *Snapshot) Shut(svc *Service, ns string, scope *SidecarScope) []uint32 {
	if s.patterns.Len() == 0 || s.Foreign(svc, ns) {
		return nil
	}
	var foreign []uint32
	open := map[uint32]bool{}
	for _, p := range svc.Ports {
		open[p.Number] = true
	}
	for list := range s.patternsOver(svc.Host) {
		by := s.visible(list, ns, scope)
		if by == nil {
			continue
		}
		for _, p := range by.Ports {
			switch {
			case p.Protocol == UDP:
			case s.Foreign(by, ns):
				foreign = append(foreign, p.Number)
			default:
				open[p.Number] = true
			}
		}
	}
	slices.Sort(foreign)
	return slices.DeleteFunc(slices.Compact(foreign), func(p uint32) bool { return open[p] })
}

// Patterns gives the patterns that cover a host and somebody registered, the longest first.
func (s *Snapshot) Patterns(host string) [][]*Service { return slices.Collect(s.patternsOver(host)) }

// patternsOver goes through them without making a list.
func (s *Snapshot) patternsOver(host string) iter.Seq[[]*Service] {
	return func(yield func([]*Service) bool) {
		if s.patterns.Len() == 0 {
			return
		}
		for p := above(host); p != ""; p = above(p) {
			if list, _ := s.patterns.Get(p); len(list) > 0 && !yield(list) {
				return
			}
		}
	}
}

// Registered says whether anybody registered a name, or a pattern that covers it, for whomever.
func (s *Snapshot) Registered(name string) bool {
	name = CanonicalHost(name)
	if len(s.Services(name)) > 0 {
		return true
	}
	for range s.patternsOver(name) {
		return true
	}
	return false
}

// above gives the tail of a name that the next wider pattern is about: "a.b.c" → ".b.c" → ".c" → "", and from "*.b.c" ".c".
// A tail is a part of the name, so that looking it up needs no memory.
func above(name string) string {
	name = strings.TrimPrefix(name, "*")
	if name == "" {
		return ""
	}
	i := strings.IndexByte(name[1:], '.')
	if i < 0 {
		return ""
	}
	return name[1+i:]
}

// tailOf is the tail that a pattern is about, by which it is found: "*.b.c" → ".b.c". Other names are their own.
func tailOf(pattern string) string {
	if strings.HasPrefix(pattern, "*.") {
		return pattern[1:]
	}
	return pattern
}
