package registry

import (
	"slices"

	security "istio.io/api/security/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/tokens"
)

// Verifying gives the RequestAuthentications that are for a workload, in order: of the root namespace and of its own.
func (s *Snapshot) Verifying(ns string, labels map[string]string) tokens.Set {
	return selected(s, s.verifying[s.Mesh.RootNamespace], s.verifying[ns], ns, labels, (*tokens.Authentication).Compare)
}

// VerifyingInbound gives those that a workload's own proxy keeps of what comes for its app.
func (s *Snapshot) VerifyingInbound(ns string, labels map[string]string) tokens.Set {
	if !s.Mesh.MutualTLS {
		return nil
	}
	return slices.DeleteFunc(s.Verifying(ns, labels), func(a *tokens.Authentication) bool { return a.Targeted })
}

// VerifiesIn says whether there are RequestAuthentications that may be for workloads of a namespace.
func (s *Snapshot) VerifiesIn(ns string) bool {
	return len(s.verifying[ns])+len(s.verifying[s.Mesh.RootNamespace]) > 0
}

// RequestAuthentication finds one; nil when there is none.
func (s *Snapshot) RequestAuthentication(ns, name string) *tokens.Authentication {
	list := s.verifying[ns]
	if i := slices.IndexFunc(list, func(a *tokens.Authentication) bool { return a.Key.Name == name }); i >= 0 {
		return list[i]
	}
	return nil
}

// selected are those of the root namespace's and a namespace's own objects that are for a workload of the latter, in order.
func selected[T interface {
	comparable
	Selects(root, ns string, labels map[string]string, services []string) bool
}](s *Snapshot, root, own []T, ns string, labels map[string]string, order func(a, b T) int) []T {
	if ns == s.Mesh.RootNamespace {
		root = nil
	}
	if len(own)+len(root) == 0 {
		return nil
	}
	var services []string
	for _, k := range s.GatewaysOf(ns, labels) {
		services = append(services, k.Ref.Name)
	}
	var out []T
	for _, one := range slices.Concat(root, own) {
		if one.Selects(s.Mesh.RootNamespace, ns, labels, services) {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, order)
	return out
}

// KeySet is a set of keys that a namespace's RequestAuthentications want.
type KeySet struct {
	tokens.Source
	Beyond bool // the namespace wants too many, and this is none of the first
}

// WantedKeys gives whence keys are to be fetched, by the objects that they will be.
func (s *Snapshot) WantedKeys() map[config.Key]KeySet {
	out := map[config.Key]KeySet{}
	for ns, list := range s.verifying {
		n := 0
		for _, a := range list {
			for _, r := range a.Rules {
				key := r.From.Key(ns)
				first, known := out[key]
				switch {
				case r.From.URI == "":
				case known: // the last one says how long to wait
					out[key] = KeySet{r.From, first.Beyond}
				default:
					n++
					out[key] = KeySet{r.From, n > tokens.MostSets}
				}
			}
		}
	}
	return out
}

// AuthenticationsWanting are the RequestAuthentications that want keys.
func (s *Snapshot) AuthenticationsWanting(keys config.Key) (out []config.Key) {
	for _, a := range s.verifying[keys.Namespace] {
		if slices.ContainsFunc(a.Rules, func(r tokens.Rule) bool { return r.From.URI != "" && r.From.Key(keys.Namespace) == keys }) {
			out = append(out, a.Key)
		}
	}
	return out
}

// setKeys looks again at the RequestAuthentications of the namespace that keys were fetched for.
func (b *batch) setKeys(c config.Change) {
	for _, a := range b.next.verifying[c.Key.Namespace] {
		if o := b.objects.Get(a.Key); o != nil && slices.ContainsFunc(a.Rules, func(r tokens.Rule) bool { return r.From.Key(a.Key.Namespace) == c.Key }) {
			b.setTokens(config.Change{Key: a.Key, Object: o})
		}
	}
}

func (b *batch) setTokens(c config.Change) {
	fetched := func(from tokens.Source) string {
		if o := b.objects.Get(from.Key(c.Key.Namespace)); o != nil {
			return o.Spec.(string)
		}
		return ""
	}
	b.next.verifying = afterChange(b.next.verifying, c, func(o *config.Object) *tokens.Authentication {
		return tokens.FromSpec(o, o.Spec.(*security.RequestAuthentication), fetched)
	}, func(a *tokens.Authentication) config.Key { return a.Key }, (*tokens.Authentication).Compare)
	b.authorized[c.Key.Namespace] = true
}
