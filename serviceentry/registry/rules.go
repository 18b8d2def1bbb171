package registry

import (
	"slices"
	"strings"

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
		b.noteAsked(c.Key, localityNeeds{})
		b.countViewers(old, -1)
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
	b.countViewers(r, +1)
}

// countViewers counts the namespaces whose workloads follow a rule where others do not: its own, and those that it is exported to
// by name; and, of its own alone, that its clients show certificates: no other namespace's rule says what becomes of all that a pod sends.
func (b *batch) countViewers(r *DestinationRule, by int) {
	asks := r.needsSecrets()
	// one about a Service of its namespace is followed by all to whom it is exported
	b.countView(r.Key.Namespace, r.Key.Namespace, by, !r.ExportTo.All || r.Selector != nil || asks || !isServiceOf(r.Host, r.Key.Namespace))
	if asks {
		b.countSecrets(r.Key.Namespace, by)
	}
	for _, ns := range r.ExportTo.Namespaces {
		if ns != r.Key.Namespace {
			b.countView(ns, r.Key.Namespace, by, true)
		}
	}
}

// needsSecrets says whether it asks its clients for certificates of a Secret or in files, which a node has none of to show. Its pods' own it has.
func (r *DestinationRule) needsSecrets() bool {
	asks := func(t *TLSSettings) bool {
		return t != nil && (t.Mode == TLSMutual || t.CredentialName != "")
	}
	for _, t := range r.PortTLS {
		if asks(t) {
			return true
		}
	}
	return asks(r.TLS)
}

// isServiceOf says whether a host is the full name of a Service of a namespace.
func isServiceOf(host, ns string) bool {
	ref, is := RefOf(host)
	return is && ref.Namespace == ns && !strings.HasPrefix(host, "*")
}

func (b *batch) replaceRule(host string, key config.Key, r *DestinationRule) {
	old, _ := b.rules.Get(tailOf(host))
	list, objects := ofOthers(old, key.Namespace)
	objects = slices.DeleteFunc(objects, func(x *DestinationRule) bool { return x.Key == key })
	if r != nil {
		objects = append(objects, r)
	}
	joined := joinRules(objects)
	for _, object := range objects {
		b.noteAsked(object.Key, localityNeeds{})
	}
	b.noteRulesBelow(tailOf(host), inNamespace(old, key.Namespace), joined)
	for _, rule := range joined { // each has another oldest object
		list = append(list, rule)
		b.noteAsked(rule.objects()[0].Key, asksAt(&Service{Traits: &Traits{}}, rule, b.next.Mesh.LocalityLb))
	}
	if len(list) == 0 {
		b.rules.Delete(tailOf(host))
	} else {
		slices.SortFunc(list, (*DestinationRule).before)
		b.rules.Put(tailOf(host), list)
	}
	b.touchCovered(host)
}

// touchCovered marks the hosts that a pattern of a rule, or of a VirtualService, covers.
func (b *batch) touchCovered(pattern string) {
	b.index.ruled[pattern] = true
	if partial(pattern) {
		b.partial = append(b.partial, pattern)
	}
	b.covered(pattern, func(host string) { b.touched[host] = true })
}

// partial says whether a pattern's "*" is not a whole label: "*example.com".
func partial(pattern string) bool {
	return len(pattern) > 1 && pattern[0] == '*' && pattern[1] != '.'
}

// covered goes through the hosts that a pattern covers. An exact one is itself; of others, those that are registered.
func (b *batch) covered(pattern string, f func(host string)) {
	switch {
	case pattern == "" || pattern[0] != '*':
		f(pattern)
	case pattern != "*" && !partial(pattern):
		b.below(pattern[2:], f)
	default:
		b.hosts.Walk(func(host string, _ []*Service) bool {
			if Covers(pattern, host) {
				f(host)
			}
			return true
		})
	}
}

// ruleTouched says whether this batch changed a rule, or a VirtualService, that covers the host.
func (b *batch) ruleTouched(host string) bool {
	ruled := b.index.ruled
	if len(ruled) == 0 {
		return false
	}
	if ruled[host] || ruled["*"] {
		return true
	}
	for tail := above(host); tail != ""; tail = above(tail) {
		if ruled["*"+tail] {
			return true
		}
	}
	return slices.ContainsFunc(b.partial, func(pattern string) bool { return Covers(pattern, host) })
}
