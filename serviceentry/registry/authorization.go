package registry

import (
	"maps"
	"slices"

	security "istio.io/api/security/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/authz"
)

// Authorizing gives the AuthorizationPolicies that are for a workload, in order: of the root namespace and of its own.
func (s *Snapshot) Authorizing(ns string, labels map[string]string) authz.Set {
	return selected(s, s.authorizing[s.Mesh.RootNamespace], s.authorizing[ns], ns, labels, (*authz.Policy).Compare)
}

// AuthorizingInbound gives those that a workload's own proxy keeps of what comes for its app, in order: those that say by labels, or of all,
// whom they are for. What a policy has targets for is a gateway.
func (s *Snapshot) AuthorizingInbound(ns string, labels map[string]string) authz.Set {
	if !s.Mesh.MutualTLS {
		return nil
	}
	return slices.DeleteFunc(s.Authorizing(ns, labels), func(p *authz.Policy) bool { return p.Targeted })
}

// AuthorizationPolicy finds one; nil when there is none.
func (s *Snapshot) AuthorizationPolicy(ns, name string) *authz.Policy {
	list := s.authorizing[ns]
	if i := slices.IndexFunc(list, func(p *authz.Policy) bool { return p.Key.Name == name }); i >= 0 {
		return list[i]
	}
	return nil
}

// AuthorizesIn says whether there are AuthorizationPolicies that may be for workloads of a namespace.
func (s *Snapshot) AuthorizesIn(ns string) bool {
	return len(s.authorizing[ns])+len(s.authorizing[s.Mesh.RootNamespace]) > 0
}

// AuthorizedFrom says whether AuthorizationPolicies of one of the namespaces may be for sidecars of another.
func (s *Snapshot) AuthorizedFrom(namespaces []string, of string) bool {
	return s.Mesh.MutualTLS && slices.ContainsFunc(namespaces, func(ns string) bool { return ns == of || ns == s.Mesh.RootNamespace })
}

// AuthorizingExit gives those that are for the pods of a gateway's Service, as far as they are known: else for one that has no other
// labels than the Service asks for.
func (s *Snapshot) AuthorizingExit(ref Ref) authz.Set {
	if !s.AuthorizesIn(ref.Namespace) {
		return nil
	}
	var out authz.Set
	for _, labels := range s.exitLabels(ref) {
		for _, p := range s.Authorizing(ref.Namespace, labels) {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, (*authz.Policy).Compare)
	return out
}

func (s *Snapshot) exitLabels(ref Ref) (out []map[string]string) {
	if svc := s.GatewayService(ref); svc != nil {
		for _, e := range s.EndpointsOf(svc) {
			if e.Cluster == "" && len(e.Labels) > 0 && !slices.ContainsFunc(out, func(l map[string]string) bool { return maps.Equal(l, e.Labels) }) {
				out = append(out, e.Labels)
			}
		}
	}
	if k, ok := s.KubeService(ref); ok && len(out) == 0 {
		out = append(out, k.Selector)
	}
	return out
}

func (b *batch) setAuthorization(c config.Change) {
	b.next.authorizing = afterChange(b.next.authorizing, c, func(o *config.Object) *authz.Policy {
		return authz.FromSpec(o, o.Spec.(*security.AuthorizationPolicy))
	}, func(p *authz.Policy) config.Key { return p.Key }, (*authz.Policy).Compare)
	b.authorized[c.Key.Namespace] = true
}

// askElsewhere notes the namespaces by whose policies an authorizer is asked whose host is another one now.
func (b *batch) askElsewhere() {
	for _, a := range b.next.Mesh.Authorizers {
		if !b.touched[a.Host] {
			continue
		}
		for ns, list := range b.next.authorizing {
			if slices.ContainsFunc(list, func(p *authz.Policy) bool { return p.Action == authz.Custom && p.Provider == a.Name }) {
				b.authorized[ns] = true
			}
		}
	}
}
