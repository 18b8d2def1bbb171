package registry

import (
	"cmp"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"
)

// Subset is a part of a host's endpoints that a rule gives a name, with traffic settings of its own.
type Subset struct {
	Name        string
	Labels      map[string]string // that its endpoints carry; empty: all endpoints
	traffic     TrafficPolicy
	portTraffic map[uint32]TrafficPolicy
}

// Subset finds one by its name.
func (r *DestinationRule) Subset(name string) (Subset, bool) {
	if r == nil {
		return Subset{}, false
	}
	i := slices.IndexFunc(r.Subsets, func(s Subset) bool { return s.Name == name })
	if i < 0 {
		return Subset{}, false
	}
	return r.Subsets[i], true
}

// SubsetTraffic is what a rule says for a port of a subset: as in Istio, each part that the subset has stands in for the rule's. ""
// is no subset.
func (r *DestinationRule) SubsetTraffic(name string, port uint32) TrafficPolicy {
	t := r.TrafficFor(port)
	s, ok := r.Subset(name)
	if !ok {
		return t
	}
	own, ok := s.portTraffic[port]
	if !ok {
		own = s.traffic
	}
	if own.Balancer != nil {
		t.Balancer = own.Balancer
	}
	if own.Pool != nil {
		t.Pool = own.Pool
	}
	if own.Outlier != nil {
		t.Outlier = own.Outlier
	}
	return t
}

// ConnectTimeoutOf is ConnectTimeoutFor of a subset; "" is no subset.
func (r *DestinationRule) ConnectTimeoutOf(name string, port uint32, def time.Duration) time.Duration {
	if s, ok := r.Subset(name); ok {
		return cmp.Or(s.portTraffic[port].connectTimeout(), s.traffic.connectTimeout(), r.ConnectTimeoutFor(port, def))
	}
	return r.ConnectTimeoutFor(port, def)
}

// Has says whether an endpoint is of the subset.
func (s Subset) Has(e Endpoint) bool { return selects(s.Labels, e.Labels) }

// Of gives those that are; all of them where the subset asks for no labels.
func (s Subset) Of(endpoints []Endpoint) []Endpoint {
	if len(s.Labels) == 0 {
		return endpoints
	}
	return slices.DeleteFunc(slices.Clone(endpoints), func(e Endpoint) bool { return !s.Has(e) })
}

func (r *DestinationRule) readSubsets(in []*networking.Subset) {
	for _, s := range in {
		policy := s.GetTrafficPolicy()
		own := DestinationRule{}
		own.readTraffic(policy)
		if _, twice := r.Subset(s.Name); !twice && s.Name != "" {
			r.Subsets = append(r.Subsets, Subset{s.Name, s.Labels, own.traffic, own.portTraffic})
		}
	}
	slices.SortFunc(r.Subsets, func(a, b Subset) int { return strings.Compare(a.Name, b.Name) })
}

// SubsetsAndAll are all of a host's endpoints, and those that its rule, if it has one, tells apart.
func (r *DestinationRule) SubsetsAndAll() []Subset {
	all := []Subset{{}}
	if r == nil {
		return all
	}
	return append(all, r.Subsets...)
}
