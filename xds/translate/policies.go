package translate

import (
	"maps"
	"slices"
	"strings"

	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/tokens"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/policyfilter"
	"github.com/sallyport/sallyport/xds/translate/waypoint"
)

// PolicyClass is a kind of proxies that are given the same EgressPolicies. Which hosts they see is apart from it: so a policy makes no
// view of hosts again, nor another one for whom it is for.
type PolicyClass struct {
	Kind      Kind
	Namespace string
	Root, Own string // of proxies of one workload: the names of the policies that select it
	Authz     string // of gateways and sidecars: the names of the AuthorizationPolicies that do, with their namespaces
	Tokens    string // likewise of RequestAuthentications
	Inbound   bool   // of sidecars: they keep AuthorizationPolicies of what comes in, as ingress gateways always do
	Serves    string // of nodes: the namespaces of their pods
	// Gateway is whose a waypoint's pods are: they keep what is about the hosts outside that it stands before.
	Gateway registry.Ref
}

// PolicedBy finds a node's.
func PolicedBy(s *registry.Snapshot, n Node) PolicyClass {
	switch {
	case n.IsAmbient():
		return PolicyClass{Kind: Ambient, Serves: n.Serves}
	case n.IsWaypoint():
		gateway := s.WaypointOf(n.Namespace, n.Labels)
		return PolicyClass{Kind: Waypoint, Gateway: gateway, Tokens: tokenNames(s.VerifyingFront(gateway))}
	case n.IsRouter() && n.Forward == "":
		p := GatewayPoliced(s.Authorizing(n.Namespace, n.Labels), s.Verifying(n.Namespace, n.Labels))
		if Classify(s, n).Kind == Ingress {
			p.Kind = Ingress // what comes in goes to nobody outside
		}
		return p
	}
	set := s.PolicySet(n.Namespace, n.Account, n.Labels)
	p := PolicyClass{Kind: Sidecar, Root: keys(set.Root), Own: keys(set.Own)}
	if n.IsRouter() {
		p.Kind = Forward
	} else if p.Inbound = s.TakesMutual(n.Labels); p.Inbound {
		p.Authz, p.Tokens = authzNames(s.AuthorizingInbound(n.Namespace, n.Labels)), tokenNames(s.VerifyingInbound(n.Namespace, n.Labels))
	}
	if p.Own != "" {
		p.Namespace = n.Namespace
	}
	return p
}

// GatewayPoliced is that of a gateway's pods that AuthorizationPolicies and RequestAuthentications are for.
func GatewayPoliced(set authz.Set, verifying tokens.Set) PolicyClass {
	return PolicyClass{Kind: Gateway, Authz: authzNames(set), Tokens: tokenNames(verifying)}
}

func authzNames(set authz.Set) string {
	names := make([]string, len(set))
	for i, p := range set {
		names[i] = p.Key.Namespace + "/" + p.Key.Name
	}
	return strings.Join(names, ",")
}

func tokenNames(set tokens.Set) string {
	names := make([]string, len(set))
	for i, a := range set {
		names[i] = a.Key.Namespace + "/" + a.Key.Name
	}
	return strings.Join(names, ",")
}

func keys(l egresspolicy.Level) string {
	names := make([]string, len(l))
	for i, p := range l {
		names[i] = p.Key.Name
	}
	return strings.Join(names, ",")
}

// named picks policies by the names in a PolicyClass.
func named(l egresspolicy.Level, names string) (out egresspolicy.Level) {
	list := strings.Split(names, ",")
	for _, p := range l {
		if slices.Contains(list, p.Key.Name) {
			out = append(out, p)
		}
	}
	return out
}

// Follows says whether a change may change what the kind is given. Which hosts there are is told of waypoints alone.
func (p PolicyClass) Follows(changed registry.Changed) bool {
	return changed.Mesh || len(changed.Policies) > 0 || len(changed.Authorization) > 0 || p.Kind == Waypoint && len(changed.Hosts) > 0
}

// BuildPolicies makes a kind's view from nothing.
func BuildPolicies(s *registry.Snapshot, p PolicyClass) *View {
	next, _ := UpdatePolicies(emptyView(), s, p, registry.Changed{Mesh: true})
	return next
}

// UpdatePolicies makes the next view from the last one. The references are of resources that differ.
func UpdatePolicies(v *View, s *registry.Snapshot, p PolicyClass, changed registry.Changed) (*View, []resource.Ref) {
	e := newEdit(v)
	if p.Kind == Waypoint {
		if changed.Mesh || p.authorizedFrom(changed.Authorization) { // AuthorizationPolicies are in tables and chains
			e.replace(nil, inboundAuthorization(s, p, waypoint.ClientInputs(envoy.TrustsOf(s.Mesh))))
		}
		e.setLevels(s, p.Gateway, changed)
		return e.commit()
	}
	if p.Kind == Ingress {
		if changed.Mesh || p.authorizedFrom(changed.Authorization) {
			e.replace(nil, inboundAuthorization(s, p, atIngress(envoy.TrustsOf(s.Mesh))))
		}
		return e.commit()
	}
	if p.Kind == Ambient {
		if changed.Mesh || len(changed.Policies) > 0 {
			e.replace(nil, nodePolicies(s, strings.Split(p.Serves, ","), changed))
		}
		return e.commit()
	}
	if p.Kind != Gateway {
		if changed.Mesh || len(changed.Policies) > 0 {
			set := egresspolicy.Set{Root: named(s.Policies(s.Mesh.RootNamespace), p.Root), Own: named(s.OwnPolicies(p.Namespace), p.Own)}
			e.replace(nil, policyfilter.WorkloadFilters(set, p.Kind == Sidecar, closesUnregistered(s)))
			if p.Kind == Sidecar {
				e.replace(nil, envoy.Leaving(s.Mesh.Policy.Expected || len(set.Root)+len(set.Own) > 0, ends(set.Root) || ends(set.Own)))
			}
		}
		if p.Inbound && (changed.Mesh || p.authorizedFrom(changed.Authorization)) {
			e.replace(nil, inboundAuthorization(s, p, atPod(envoy.TrustsOf(s.Mesh))))
		}
		return e.commit()
	}
	namespaces := changed.Policies
	if changed.Mesh {
		namespaces = s.PolicedNamespaces()
	}
	trust, unsettled := envoy.TrustsOf(s.Mesh), s.Policies(s.Mesh.RootNamespace).Unsettles()
	if changed.Mesh || len(changed.Authorization) > 0 {
		e.replace(nil, authorization(s, p))
	}
	if !changed.Mesh && len(changed.Policies) == 0 {
		return e.commit()
	}
	for _, ns := range namespaces {
		if list := s.OwnPolicies(ns); len(list) > 0 {
			e.replace(nil, []*resource.Resource{policyfilter.NamespaceLevel(ownName(ns), ns, resolve.Govern(list, s.People(ns)), unsettled, trust)})
		} else {
			e.remove(resource.Extension, ownName(ns))
		}
	}
	e.indexes(s, trust)
	return e.commit()
}

// Reauthorize makes, of a gateway's view, that of one that other AuthorizationPolicies are for.
func Reauthorize(v *View, s *registry.Snapshot, p PolicyClass) *View {
	e := newEdit(v)
	e.replace(nil, authorization(s, p))
	return e.done()
}

// policyNames are those of the levels that a gateway's indexes lead to, in order.
func policyNames(s *registry.Snapshot) []string {
	var out []string
	for _, ns := range s.PolicedNamespaces() {
		if ns != s.Mesh.RootNamespace {
			out = append(out, ownName(ns))
		}
	}
	if root := resolve.Root(s); !rootForAll(root) {
		out = append(out, slices.Sorted(maps.Keys(root.Levels))...)
	}
	return out
}

// rootForAll says whether the root namespace's level is one for everybody: then the filter is that level itself, since an index, and what makes the filter that it leads to, cost each request.
func rootForAll(root resolve.RootLevels) bool { return len(root.Of) == 0 && root.Others != "" }

// policiesKept says which levels anybody has, whether any are expected, and whether rules of theirs end.
func policiesKept(s *registry.Snapshot) (k envoy.Enforcement) {
	k.Expected = s.Mesh.Policy.Expected
	for _, ns := range s.PolicedNamespaces() {
		k.Root = k.Root || ns == s.Mesh.RootNamespace
		k.Own = k.Own || ns != s.Mesh.RootNamespace
		k.Ends = k.Ends || ends(s.Policies(ns))
	}
	return k
}

// ends says whether rules of a level do.
func ends(l egresspolicy.Level) bool { return slices.ContainsFunc(l, (*egresspolicy.Policy).Ends) }

// leavingFrom is what ends requests that leave from a proxy that keeps the policies of some namespaces, beside the root namespace's; authorized says that AuthorizationPolicies are kept for what leaves, too.
func leavingFrom(s *registry.Snapshot, namespaces []string, authorized bool) []*resource.Resource {
	policies, end := authorized || s.Mesh.Policy.Expected, false
	for _, ns := range append([]string{s.Mesh.RootNamespace}, namespaces...) {
		l := s.Policies(ns)
		policies, end = policies || len(l) > 0, end || ends(l)
	}
	return envoy.Leaving(policies, end)
}

func ownName(ns string) string { return "own/" + ns }

// nodePolicies are what a node's proxy keeps, as far as it may have changed: the levels of the namespaces that it has pods of, and no others. What comes
// from a namespace that it has no level of yet is denied.
func nodePolicies(s *registry.Snapshot, serves []string, changed registry.Changed) []*resource.Resource {
	if !changed.Mesh && !slices.ContainsFunc(changed.Policies, func(ns string) bool { return ns == s.Mesh.RootNamespace || slices.Contains(serves, ns) }) {
		return nil
	}
	trust := envoy.TrustsOf(s.Mesh)
	of, others := rootLevels(s, resolve.Root(s), serves)
	return append(leavingFrom(s, serves, false),
		policyfilter.IndexOutside(envoy.FilterRoot, of, others, trust), policyfilter.IndexOutside(envoy.FilterOwn, ownLevels(s, serves), policyfilter.Unknown(meshPolicy(s), "node"), trust),
	)
}

// ownLevels are namespaces' own.
func ownLevels(s *registry.Snapshot, namespaces []string) map[string]*httprbacv3.RBAC {
	trust, unsettled := envoy.TrustsOf(s.Mesh), s.Policies(s.Mesh.RootNamespace).Unsettles()
	out := map[string]*httprbacv3.RBAC{}
	for _, ns := range namespaces {
		out[ns] = policyfilter.NamespaceFilter(ns, resolve.Govern(s.OwnPolicies(ns), s.People(ns)), unsettled, trust)
	}
	return out
}

// rootLevels are the root namespace's for some namespaces, or, of nil, for all for which it has another one than for the others.
func rootLevels(s *registry.Snapshot, root resolve.RootLevels, namespaces []string) (of map[string]*httprbacv3.RBAC, others *httprbacv3.RBAC) {
	levels := map[string]*httprbacv3.RBAC{}
	level := func(name string) *httprbacv3.RBAC {
		if l, there := root.Levels[name]; there && levels[name] == nil {
			levels[name] = policyfilter.RootFilter(l.Namespace, l.Governed(), envoy.TrustsOf(s.Mesh), closesUnregistered(s))
		}
		return levels[name]
	}
	of = map[string]*httprbacv3.RBAC{}
	for ns, name := range root.Of {
		if namespaces == nil || slices.Contains(namespaces, ns) {
			of[ns] = level(name)
		}
	}
	return of, level(root.Others)
}

// indexes are what a gateway finds a client's levels by, and the root namespace's levels.
func (e *edit) indexes(s *registry.Snapshot, trust envoy.TrustDomains) {
	of := map[string]string{}
	for _, ns := range s.PolicedNamespaces() {
		if ns != s.Mesh.RootNamespace {
			of[ns] = ownName(ns)
		}
	}
	root := resolve.Root(s)
	now := []*resource.Resource{
		policyfilter.Index(envoy.FilterOwn, of, "", trust),
		policyfilter.Index(envoy.FilterOwnLed, of, "", trust),
	}
	if rootForAll(root) {
		level := root.Levels[root.Others]
		for _, filter := range []string{envoy.FilterRoot, envoy.FilterRootLed} {
			now = append(now, policyfilter.RootLevel(filter, level.Namespace, level.Governed(), trust, closesUnregistered(s)))
		}
	} else {
		now = append(now, policyfilter.Index(envoy.FilterRoot, root.Of, root.Others, trust), policyfilter.Index(envoy.FilterRootLed, root.Of, root.Others, trust))
		for name, level := range root.Levels {
			now = append(now, policyfilter.RootLevel(name, level.Namespace, level.Governed(), trust, closesUnregistered(s)))
		}
	}
	var gone []*resource.Resource
	e.next.WalkPrefix(resource.Extension, "root", func(r *resource.Resource) bool { gone = append(gone, r); return true })
	e.replace(gone, now)
	e.next.WalkPrefix(resource.Extension, ownName(""), func(r *resource.Resource) bool {
		if of[strings.TrimPrefix(r.Name, ownName(""))] == "" {
			e.remove(r.Type, r.Name)
		}
		return true
	})
}

// closesUnregistered is the object that closes what nobody registered, where rules let some of it out; "" otherwise.
func closesUnregistered(s *registry.Snapshot) string {
	if !s.LetsOut() {
		return ""
	}
	return meshPolicy(s)
}

// IndexedPrefix is how the names of what an index leads to begin; "" of what is none.
func IndexedPrefix(name string) string {
	return map[string]string{envoy.FilterOwn: ownName(""), envoy.FilterOwnLed: ownName(""), envoy.FilterRoot: "root", envoy.FilterRootLed: "root"}[name]
}

// remove takes a resource out, if it is there.
func (e *edit) remove(t resource.Type, name string) {
	if _, ok := e.sets[t].Get(name); ok {
		e.sets[t].Delete(name)
		e.changed[resource.Ref{Type: t, Name: name}] = true
	}
}
