package registry

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/sallyport/sallyport/config"
)

// The subsets of a DestinationRule for a pattern are told for each port of each host that somebody registers below it, and so are the names of certificates that it asks for.
// This file bounds them together (docs/adr/0221-rules-for-patterns.md). Each namespace's hosts are counted for themselves, so that what one registers ends nothing of another's.
// Of too many subsets none counts, and what leads to one goes nowhere; with too many names nothing is sent where they are to be shown: not to ask for them would be less safe.

// MostNames is how many names of certificates a rule has at most for a port.
const MostNames = 256

// What to do where subsets, or names, are too many.
const (
	FewerSubsetsBelow = "write fewer subsets, or DestinationRules for fewer hosts"
	FewerNames        = "write fewer subjectAltNames, a pattern of them, or DestinationRules for fewer hosts"
)

// crowdedSubsets says why none of a rule's subsets counts for what a namespace registers below its pattern.
func crowdedSubsets(subsets int, namespace string, most int) string {
	return fmt.Sprintf("its %d subsets come to more than %d clusters at all the ports that namespace %s registers below its host, with one more counted for each %d endpoints, so that none of them counts there",
		subsets, most, namespace, EndpointsAsPort)
}

// crowdedNames says the same of its names of certificates.
func crowdedNames(names int, namespace string, most int) string {
	return fmt.Sprintf("subjectAltNames: as many as %d come to more than %d in all at all the ports that namespace %s registers below the rule's host, and in each subset there, so that proxies are told of none",
		names, most, namespace)
}

// multiplies says whether it has something that is told for each host.
func (r *DestinationRule) multiplies() bool { return len(r.Subsets) > 0 || r.names() > 0 }

// names is how many names of certificates it has for a port, at most.
func (r *DestinationRule) names() int {
	n := r.TLS.names()
	for _, t := range r.PortTLS {
		n = max(n, t.names())
	}
	return n
}

func (t *TLSSettings) names() int {
	if t == nil || t.Mode == TLSDisable {
		return 0
	}
	return len(t.SANs)
}

// crowding says whether a rule's subsets, and its names, are too many for what a namespace registers below its host.
func (r *DestinationRule) crowding(w weight, most int) (subsets, names bool) {
	told := len(r.Subsets)
	if subsets = told > 0 && (told+1)*w.told > most; subsets {
		told = 0
	}
	return subsets, r.names()*(w.ports+told*w.direct) > most
}

// crowdedBy is the rule as it counts for a namespace that registers too much below its host.
func (r *DestinationRule) crowdedBy(namespace string, most int, subsets, names bool) *DestinationRule {
	out := *r
	out.Hash = ^r.Hash // another value
	if subsets {
		out.Subsets, out.Crowded = nil, crowdedSubsets(len(r.Subsets), namespace, most)
	}
	if names {
		why := crowdedNames(r.names(), namespace, most)
		out.TLS, out.PortTLS = r.TLS.nameless(why), maps.Clone(r.PortTLS)
		for port, t := range out.PortTLS {
			out.PortTLS[port] = t.nameless(why)
		}
	}
	return &out
}

// nameless are settings of which the names are told to nobody, and nothing is sent by them.
func (t *TLSSettings) nameless(why string) *TLSSettings {
	if t.names() == 0 {
		return t
	}
	out := *t
	out.SANs, out.Crowded = nil, why
	return &out
}

// counted is a rule as it counts for a service.
func (s *Snapshot) countedRule(r *DestinationRule, svc *Service) *DestinationRule {
	return s.uncrowded(r, svc).countedFor(svc)
}

func (s *Snapshot) uncrowded(r *DestinationRule, svc *Service) *DestinationRule {
	if r != nil && len(s.crowdedRules) > 0 {
		if is := s.crowdedRules[r][svc.Namespace]; is != nil {
			return is
		}
	}
	return r
}

// CrowdedPart is a part of a DestinationRule that does not count for what a namespace registers below its host: its names of certificates, or else its subsets; and why.
type CrowdedPart struct {
	Names bool
	Why   string
}

// Compare puts them in order.
func (c CrowdedPart) Compare(o CrowdedPart) int {
	if c.Names != o.Names {
		return cmp.Compare(strconv.FormatBool(c.Names), strconv.FormatBool(o.Names))
	}
	return cmp.Compare(c.Why, o.Why)
}

// CrowdedRule goes through what of a DestinationRule does not count for what namespaces register below its host.
func (s *Snapshot) CrowdedRule(key config.Key) iter.Seq[CrowdedPart] {
	return func(yield func(CrowdedPart) bool) {
		for r, by := range s.crowdedRules {
			i := slices.IndexFunc(r.objects(), func(part *DestinationRule) bool { return part.Key == key })
			if i < 0 {
				continue
			}
			for _, is := range by {
				if is.Crowded != "" && len(r.objects()[i].Subsets) > 0 && !yield(CrowdedPart{Why: is.Crowded}) {
					return
				}
				if why := is.crowdedTLS(); why != "" && r.Key == key && !yield(CrowdedPart{Names: true, Why: why}) {
					return
				}
			}
		}
	}
}

// crowdedTLS is why nothing is sent by its names; "" where something is.
func (r *DestinationRule) crowdedTLS() string {
	if r.TLS != nil && r.TLS.Crowded != "" {
		return r.TLS.Crowded
	}
	for _, t := range r.PortTLS {
		if t != nil && t.Crowded != "" {
			return t.Crowded
		}
	}
	return ""
}

// noteRulesBelow counts rules among those that are for a pattern, in the place of others.
func (b *batch) noteRulesBelow(tail string, was, is []*DestinationRule) {
	if !isTail(tail) {
		return
	}
	for _, r := range was {
		if r.multiplies() {
			b.useBelow(tail, -1)
			b.putCrowdedRule(r, nil)
			delete(b.rejudgedRules, r)
		}
	}
	for _, r := range is {
		if r.multiplies() {
			b.useBelow(tail, +1)
			b.rejudgedRules[r] = true
		}
	}
}

// settleCrowdedRules says again what of rules that are others now counts for what namespaces register below their hosts, and for those that turned of the others.
func (b *batch) settleCrowdedRules(turned map[string]map[string]bool) {
	for r := range b.rejudgedRules {
		b.judgeRule(r, b.namespacesBelow(tailOf(r.Host), nil))
	}
	for tail, namespaces := range turned {
		list, _ := b.rules.Get(tail)
		for _, r := range list {
			if r.multiplies() && !b.rejudgedRules[r] {
				b.judgeRule(r, namespaces)
			}
		}
	}
}

func (b *batch) judgeRule(r *DestinationRule, namespaces map[string]bool) {
	tail, was := tailOf(r.Host), b.next.crowdedRules[r]
	is := maps.Clone(was)
	var turned []string
	for ns := range namespaces {
		subsets, names := r.crowding(b.index.below[tail].of[ns], b.next.mostRows)
		if before := was[ns]; (before != nil && before.Crowded != "") == subsets && (before != nil && before.crowdedTLS() != "") == names {
			continue
		}
		turned = append(turned, ns)
		if is == nil {
			is = map[string]*DestinationRule{}
		}
		if is[ns] = r.crowdedBy(ns, b.next.mostRows, subsets, names); !subsets && !names {
			delete(is, ns)
		}
	}
	if len(turned) > 0 {
		b.putCrowdedRule(r, is)
		b.touchBelow(tail, turned)
	}
}

// putCrowdedRule notes as what a rule counts for namespaces that register too much below its host; nothing for none.
func (b *batch) putCrowdedRule(r *DestinationRule, is map[string]*DestinationRule) {
	if len(is) == 0 && b.next.crowdedRules[r] == nil {
		return
	}
	if !b.crowdedRulesCopied {
		b.next.crowdedRules, b.crowdedRulesCopied = maps.Clone(b.next.crowdedRules), true
	}
	if b.next.crowdedRules == nil {
		b.next.crowdedRules = map[*DestinationRule]map[string]*DestinationRule{}
	}
	if b.next.crowdedRules[r] = is; len(is) == 0 {
		delete(b.next.crowdedRules, r)
	}
}
