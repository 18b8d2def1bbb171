package registry

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
)

// Selected are the rules of one namespace that select a workload by its labels: "NS/NAME,NAME…", in order; "" for none.
// It is a text so that it can be compared.
type Selected string

// Selecting gives the rules that select a workload of the namespace.
func (s *Snapshot) Selecting(ns string, labels map[string]string) Selected {
	var names []string
	for _, r := range s.selecting[ns] {
		if selects(r.Selector, labels) {
			names = append(names, r.Key.Name)
		}
	}
	if names == nil {
		return ""
	}
	return Selected(ns + "/" + strings.Join(names, ","))
}

func (s Selected) has(rule config.Key) bool {
	ns, names, _ := strings.Cut(string(s), "/")
	return ns == rule.Namespace && slices.Contains(strings.Split(names, ","), rule.Name)
}

// setSelectingRule keeps the rules with selectors at hand: they are few.
func (b *batch) setSelectingRule(key config.Key, r *Rule) {
	list := slices.DeleteFunc(slices.Clone(b.next.selecting[key.Namespace]), func(x *Rule) bool { return x.Key == key })
	if r != nil {
		list = append(list, r)
		slices.SortFunc(list, func(x, y *Rule) int { return x.Key.Compare(y.Key) })
	}
	next := make(map[string][]*Rule, len(b.next.selecting)+1)
	for ns, rules := range b.next.selecting {
		next[ns] = rules
	}
	if next[key.Namespace] = list; len(list) == 0 {
		delete(next, key.Namespace)
	}
	b.next.selecting = next
}
