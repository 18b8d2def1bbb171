package registry

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
)

// setRule replaces or removes a DestinationRule and touches every host that it covered or covers now. Workloads of
// the rule's namespace follow it before others, so that namespace sees something of its own.
func (b *batch) setRule(c config.Change) {
	if old := b.index.rules[c.Key]; old != nil {
		if old.Selector != nil {
			b.changed.Views = true // other workloads follow other rules
			b.setSelectingRule(c.Key, nil)
		}
		b.index.noteCredentials(old, false)
		b.replaceRule(old.Host, c.Key, nil)
		delete(b.index.rules, c.Key)
		b.countView(c.Key.Namespace, -1)
	}
	if c.Object == nil {
		return
	}
	r := fromDestinationRule(c.Object, c.Object.Spec.(*networking.DestinationRule), b.next.Mesh)
	if r.Selector != nil {
		b.changed.Views = true
		b.setSelectingRule(c.Key, r)
	}
	b.index.rules[c.Key] = r
	b.index.noteCredentials(r, true)
	b.replaceRule(r.Host, c.Key, r)
	b.countView(c.Key.Namespace, +1)
}

func (b *batch) replaceRule(host string, key config.Key, r *Rule) {
	old, _ := b.rules.Get(tailOf(host))
	list := slices.DeleteFunc(slices.Clone(old), func(x *Rule) bool { return x.Key == key })
	if r != nil {
		list = append(list, r)
		slices.SortFunc(list, func(x, y *Rule) int { return x.Key.Compare(y.Key) })
	}
	if len(list) == 0 {
		b.rules.Delete(tailOf(host))
	} else {
		b.rules.Put(tailOf(host), list)
	}
	b.touchCovered(host)
}

// touchCovered marks the hosts that a rule's pattern covers. An exact pattern is one look-up; a wildcard walks
// the hosts, which is what it is about.
func (b *batch) touchCovered(pattern string) {
	b.index.ruled[pattern] = true
	if pattern == "" || pattern[0] != '*' {
		b.touched[pattern] = true
		return
	}
	b.hosts.Walk(func(host string, _ []*Service) bool {
		if covers(pattern, host) {
			b.touched[host] = true
		}
		return true
	})
}

// ruleTouched says whether this batch changed a rule that covers the host.
func (b *batch) ruleTouched(host string) bool {
	for pattern := range b.index.ruled {
		if covers(pattern, host) {
			return true
		}
	}
	return false
}
