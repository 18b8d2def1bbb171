package translate

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
)

// PolicySelection are some of a snapshot's EgressPolicies, by namespace and name.
type PolicySelection map[string]map[string]*egresspolicy.Policy

// SelectPolicies finds them. Those that are not there are left out.
func SelectPolicies(s *registry.Snapshot, policies []config.Key) PolicySelection {
	out := PolicySelection{}
	for _, key := range policies {
		if out[key.Namespace] == nil {
			out[key.Namespace] = map[string]*egresspolicy.Policy{}
		}
		out[key.Namespace][key.Name] = nil
	}
	for ns, names := range out {
		for _, p := range s.Policies(ns) {
			if _, chosen := names[p.Key.Name]; chosen {
				names[p.Key.Name] = p
			}
		}
	}
	return out
}

// Kept gives those of some policies that proxies of the kind keep, whose view it is: gateways keep all; proxies of one workload those that select it;
// those of nodes what is for the namespaces of their pods; waypoints what may decide about hosts outside, if they stand before any.
func (p PolicyClass) Kept(s *registry.Snapshot, v *View, chosen PolicySelection) (out []*egresspolicy.Policy) {
	root := s.Mesh.RootNamespace
	switch p.Kind {
	case Gateway:
		return chosen.in(chosen.namespaces(), nil)
	case Ambient:
		serves := slices.DeleteFunc(strings.Split(p.Serves, ","), func(ns string) bool { return ns == "" || ns == root })
		if p.Serves == "" {
			return nil
		}
		return append(chosen.in(serves, nil), chosen.in([]string{root}, func(policy *egresspolicy.Policy) bool {
			return policy.Namespaces == nil || slices.ContainsFunc(strings.Split(p.Serves, ","), func(ns string) bool { return s.MeansNamespace(policy, ns) })
		})...)
	case Waypoint:
		if len(v.levels.hosts) == 0 {
			return nil
		}
		return chosen.in(chosen.namespaces(), func(policy *egresspolicy.Policy) bool { return policy.DecidesAbout(v.levels.hosts) })
	default:
		return append(chosen.named(root, p.Root), chosen.named(p.Namespace, p.Own)...)
	}
}

func (c PolicySelection) namespaces() (out []string) {
	for ns := range c {
		out = append(out, ns)
	}
	return out
}

// in are those of namespaces that are so; nil is for all.
func (c PolicySelection) in(namespaces []string, so func(*egresspolicy.Policy) bool) (out []*egresspolicy.Policy) {
	for _, ns := range namespaces {
		for _, p := range c[ns] {
			if p != nil && (so == nil || so(p)) {
				out = append(out, p)
			}
		}
	}
	return out
}

// named are those of one namespace that have the names.
func (c PolicySelection) named(ns, names string) (out []*egresspolicy.Policy) {
	if c[ns] == nil || names == "" {
		return nil
	}
	for name := range strings.SplitSeq(names, ",") {
		if p := c[ns][name]; p != nil {
			out = append(out, p)
		}
	}
	return out
}

// IsPolicyLevel says whether an extension is one of those by which the policies of a namespace are kept, whatever the proxy's kind.
func IsPolicyLevel(extension, namespace, root string) bool {
	if namespace == root {
		return extension == envoy.FilterRoot || extension == envoy.FilterRootLed || strings.HasPrefix(extension, IndexedPrefix(envoy.FilterRoot))
	}
	return extension == envoy.FilterOwn || extension == envoy.FilterOwnLed || extension == ownName(namespace)
}

// IsPolicies says whether an extension is what EgressPolicies say, or leads to it.
func IsPolicies(extension string) bool {
	switch extension {
	case envoy.FilterRoot, envoy.FilterRootLed, envoy.FilterOwn, envoy.FilterOwnLed:
		return true
	}
	return false
}

// IsExitPolicies says whether an extension of an exit is what EgressPolicies say, leads to it, or is led to.
func IsExitPolicies(extension string) bool {
	return IsPolicies(extension) || strings.HasPrefix(extension, IndexedPrefix(envoy.FilterOwn)) || strings.HasPrefix(extension, IndexedPrefix(envoy.FilterRoot))
}

// EndsRequests says whether an extension is one of what ends requests that leave where no exit is.
func EndsRequests(extension string) bool {
	switch extension {
	case envoy.FilterLeaving, envoy.FilterLeavingLasts, envoy.FilterLeavingTells:
		return true
	}
	return false
}
