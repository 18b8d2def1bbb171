package registry

import (
	"maps"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
)

// SelectorKey is what selects a workload by its labels: the DestinationRules of its namespace, and the sourceLabels in
// VirtualServices that it may follow: "NS/NAME,NAME…|k=v,k=v|k=v", in order; "" for nothing. It is a text so that it can be
// compared: workloads of which it is equal, in namespaces of one view, get the same.
type SelectorKey string

// Selecting gives what selects a workload of the namespace.
func (s *Snapshot) Selecting(ns string, labels map[string]string) SelectorKey {
	var names []string
	for _, r := range s.selecting[ns] {
		if selects(r.Selector, labels) {
			names = append(names, r.Key.Name)
		}
	}
	sources := s.sourcesOf(ns, labels)
	if names == nil && sources == nil {
		return ""
	}
	text := ""
	if names != nil {
		text = ns + "/" + strings.Join(names, ",")
	}
	return SelectorKey(strings.Join(append([]string{text}, sources...), "|"))
}

// SelectsByLabels says whether anything tells workloads of a namespace apart by their labels: which policies, Sidecars, DestinationRules and
// routes are theirs.
func (s *Snapshot) SelectsByLabels(ns string) bool {
	if len(s.selecting[ns]) > 0 || slices.ContainsFunc(s.policies[ns], (*egresspolicy.Policy).ByLabels) || slices.ContainsFunc(s.RootPolicies(ns), (*egresspolicy.Policy).ByLabels) {
		return true
	}
	if slices.ContainsFunc(s.scopes[ns], func(scope *SidecarScope) bool { return len(scope.Selector) > 0 }) {
		return true
	}
	for _, list := range s.sources {
		for _, x := range list {
			if slices.ContainsFunc(x.by, func(v *VirtualService) bool { return v.ExportTo.Includes(ns) }) {
				return true
			}
		}
	}
	return false
}

// has says whether a DestinationRule selects the workload.
func (s SelectorKey) has(rule config.Key) bool {
	rules, _, _ := strings.Cut(string(s), "|")
	ns, names, _ := strings.Cut(rules, "/")
	return ns == rule.Namespace && slices.Contains(strings.Split(names, ","), rule.Name)
}

// Carries says whether the workload has all labels of a VirtualService's sourceLabels; it implements route.Source.
func (s SelectorKey) Carries(selector map[string]string) bool {
	if len(selector) == 0 {
		return true
	}
	_, sources, _ := strings.Cut(string(s), "|")
	return slices.Contains(strings.Split(sources, "|"), selectorText(selector))
}

// selectorText is a selector's one form: "k=v,k=v", in order of the keys.
func selectorText(selector map[string]string) string {
	pairs := make([]string, 0, len(selector))
	for _, k := range slices.Sorted(maps.Keys(selector)) {
		pairs = append(pairs, k+"="+selector[k])
	}
	return strings.Join(pairs, ",")
}

// source is one set of sourceLabels, and who writes it.
type source struct {
	text     string
	selector map[string]string
	by       []*VirtualService
}

// sourcesOf gives the sourceLabels that a workload carries, of VirtualServices that are exported to its namespace.
func (s *Snapshot) sourcesOf(ns string, labels map[string]string) (out []string) {
	if len(s.sources) == 0 {
		return nil
	}
	for k, v := range labels {
		for _, x := range s.sources[k+"="+v] {
			if selects(x.selector, labels) && slices.ContainsFunc(x.by, func(v *VirtualService) bool { return v.ExportTo.Includes(ns) }) {
				out = append(out, x.text)
			}
		}
	}
	slices.Sort(out)
	return out
}

// setSources brings the index of sourceLabels up to date with a VirtualService that was there and one that is; either may be nil.
func (b *batch) setSources(was, is *VirtualService) {
	before, now := was.sources(), is.sources()
	if len(before) == 0 && len(now) == 0 {
		return
	}
	b.changed.Views = true // workloads may follow other routes than those that they followed together
	next := maps.Clone(b.next.sources)
	if next == nil {
		next = map[string][]source{}
	}
	for _, selector := range before {
		putSource(next, selector, func(by []*VirtualService) []*VirtualService {
			return slices.DeleteFunc(by, func(v *VirtualService) bool { return v.Key == was.Key })
		})
	}
	for _, selector := range now {
		putSource(next, selector, func(by []*VirtualService) []*VirtualService { return append(by, is) })
	}
	b.next.sources = next
}

// putSource changes who writes a selector. It is found by its first pair.
func putSource(sources map[string][]source, selector map[string]string, change func([]*VirtualService) []*VirtualService) {
	text := selectorText(selector)
	first, _, _ := strings.Cut(text, ",")
	var by []*VirtualService
	list := slices.DeleteFunc(slices.Clone(sources[first]), func(x source) bool {
		if x.text == text {
			by = x.by
		}
		return x.text == text
	})
	if by = change(slices.Clone(by)); len(by) > 0 {
		list = append(list, source{text, selector, by})
	}
	if len(list) == 0 {
		delete(sources, first)
		return
	}
	sources[first] = list
}

// setSelectingRule keeps the rules with selectors at hand: they are few.
func (b *batch) setSelectingRule(key config.Key, r *DestinationRule) {
	list := slices.DeleteFunc(slices.Clone(b.next.selecting[key.Namespace]), func(x *DestinationRule) bool { return x.Key == key })
	if r != nil {
		list = append(list, r)
		slices.SortFunc(list, func(x, y *DestinationRule) int { return x.Key.Compare(y.Key) })
	}
	next := make(map[string][]*DestinationRule, len(b.next.selecting)+1)
	for ns, rules := range b.next.selecting {
		next[ns] = rules
	}
	if next[key.Namespace] = list; len(list) == 0 {
		delete(next, key.Namespace)
	}
	b.next.selecting = next
}
