package translate

import (
	"maps"
	"slices"

	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/policyfilter"
)

// frontLevels are what a waypoint keeps of EgressPolicies: whoever sees a host may come for it, so those of all namespaces, as far as they may decide about
// the hosts outside that it stands before. It is immutable.
type frontLevels struct {
	hosts []string                    // in order
	own   map[string]*httprbacv3.RBAC // by namespace
	authz bool                        // AuthorizationPolicies are for one of the hosts
}

// setLevels sets a waypoint's levels. An edit of a policy costs the levels of its namespace, and what is sent is nothing if those are as before. A host that
// comes is looked for in all of them; until the waypoint has them, it has what opens none (egresspolicy.Level.About).
func (e *edit) setLevels(s *registry.Snapshot, gateway registry.Ref, changed registry.Changed) {
	was := e.next.levels
	var hosts []string
	if changed.Mesh {
		hosts = outsideOf(s, gateway)
	} else {
		hosts = moved(s, gateway, was.hosts, changed.Hosts)
	}
	anew := changed.Mesh || !slices.Equal(hosts, was.hosts)
	if !anew && (len(hosts) == 0 || len(changed.Policies)+len(changed.Authorization) == 0) {
		return
	}
	now := frontLevels{hosts, map[string]*httprbacv3.RBAC{}, was.authz}
	if anew || len(changed.Authorization) > 0 {
		now.authz = authorizedOutside(s, gateway, hosts)
	}
	e.next.levels = now
	e.replace(nil, leavingFrom(s, s.PolicedNamespaces(), now.authz))
	switch {
	case len(hosts) == 0:
		e.replace(nil, noLevels(s))
	case anew:
		now.setOwn(s, s.PolicedNamespaces())
		e.replace(nil, []*resource.Resource{now.index(s), now.root(s)})
	default:
		if maps.Copy(now.own, was.own); now.setOwn(s, changed.Policies) {
			e.replace(nil, []*resource.Resource{now.index(s)})
		}
		if rootDiffers(s, changed.Policies) {
			e.replace(nil, []*resource.Resource{now.root(s)})
		}
	}
}

// authorizedOutside says whether AuthorizationPolicies count at a waypoint for one of the hosts outside.
func authorizedOutside(s *registry.Snapshot, gateway registry.Ref, hosts []string) bool {
	return slices.ContainsFunc(hosts, func(host string) bool {
		return slices.ContainsFunc(s.Services(host), func(svc *registry.Service) bool {
			return svc.External && svc.Waypoint == gateway && len(s.AuthorizingFront(gateway, svc)) > 0
		})
	})
}

// rootDiffers says whether the root namespace's level may be another one after edits in namespaces: policies of its own may ask who is in others.
func rootDiffers(s *registry.Snapshot, namespaces []string) bool {
	return slices.Contains(namespaces, s.Mesh.RootNamespace) || slices.ContainsFunc(s.Policies(s.Mesh.RootNamespace), func(p *egresspolicy.Policy) bool {
		return p.Namespaces != nil || p.ByLabels()
	})
}

// index are namespaces' own levels, in the one resource that tells them apart.
func (f *frontLevels) index(s *registry.Snapshot) *resource.Resource {
	return policyfilter.IndexWithin(envoy.FilterOwn, f.own, nil, envoy.TrustsOf(s.Mesh))
}

// setOwn sets namespaces' own levels, and says whether one differs.
func (f *frontLevels) setOwn(s *registry.Snapshot, namespaces []string) (differs bool) {
	trust, unsettled := envoy.TrustsOf(s.Mesh), s.Policies(s.Mesh.RootNamespace).Unsettles()
	for _, ns := range namespaces {
		was, had := f.own[ns]
		list := s.OwnPolicies(ns)
		if len(list) == 0 {
			delete(f.own, ns)
			differs = differs || had
			continue
		}
		if now := policyfilter.NamespaceFilter(ns, resolve.Govern(list.About(f.hosts), s.People(ns)), unsettled, trust); !had || !proto.Equal(was, now) {
			f.own[ns], differs = now, true
		}
	}
	return differs
}

// root is the root namespace's level.
func (f *frontLevels) root(s *registry.Snapshot) *resource.Resource {
	root := resolve.Root(s)
	for name, level := range root.Levels {
		root.Levels[name] = level.About(f.hosts)
	}
	of, others := rootLevels(s, root, nil)
	return policyfilter.IndexWithin(envoy.FilterRoot, of, others, envoy.TrustsOf(s.Mesh))
}

// noLevels are what a waypoint has that stands before no host outside: nobody comes to it for one, and it has nothing by which one could be let out.
func noLevels(s *registry.Snapshot) []*resource.Resource {
	trust := envoy.TrustsOf(s.Mesh)
	return []*resource.Resource{
		policyfilter.IndexWithin(envoy.FilterOwn, nil, policyfilter.Unknown(meshPolicy(s), "waypoint"), trust), policyfilter.IndexWithin(envoy.FilterRoot, nil, nil, trust),
	}
}

// outsideOf are the hosts outside whose entries ask for a waypoint, in order.
func outsideOf(s *registry.Snapshot, gateway registry.Ref) (hosts []string) {
	for host := range s.Hosts() {
		if asksFor(s, gateway, host) {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return hosts
}

// moved are those hosts after some changed.
func moved(s *registry.Snapshot, gateway registry.Ref, was, changed []string) []string {
	now, copied := was, false
	for _, host := range changed {
		at, there := slices.BinarySearch(now, host)
		if asksFor(s, gateway, host) == there {
			continue
		}
		if !copied {
			now, copied = slices.Clone(now), true
		}
		if there {
			now = slices.Delete(now, at, at+1)
		} else {
			now = slices.Insert(now, at, host)
		}
	}
	return now
}

// asksFor says whether an entry for the host asks for the waypoint. Pods that are of none (no Gateway) stand before nothing.
func asksFor(s *registry.Snapshot, gateway registry.Ref, host string) bool {
	return !gateway.IsZero() && slices.ContainsFunc(s.Services(host), func(svc *registry.Service) bool { return svc.External && svc.Waypoint == gateway })
}
