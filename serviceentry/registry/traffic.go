package registry

import (
	"cmp"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"
)

// TrafficPolicy is what a rule says about how the endpoints behind a port are used; a nil part leaves what is usual.
type TrafficPolicy struct {
	Balancer *networking.LoadBalancerSettings
	Pool     *networking.ConnectionPoolSettings
	Outlier  *networking.OutlierDetection
}

// TrafficFor gives it for a port. As in Istio, settings for the port stand in for those for all ports as a whole: what
// they leave out is as usual.
func (r *DestinationRule) TrafficFor(port uint32) TrafficPolicy {
	if r == nil {
		return TrafficPolicy{}
	}
	if t, ok := r.portTraffic[port]; ok {
		return t
	}
	return r.traffic
}

// Hashed gives the settings by which one client's requests go to one endpoint; nil without.
func (t TrafficPolicy) Hashed() *networking.LoadBalancerSettings_ConsistentHashLB {
	return t.Balancer.GetConsistentHash()
}

// connectTimeout bounds connecting; 0 says nothing.
func (t TrafficPolicy) connectTimeout() time.Duration {
	return t.Pool.GetTcp().GetConnectTimeout().AsDuration()
}

// OverHTTP2 says whether a port of plain HTTP is spoken to by HTTP/2.
func (t TrafficPolicy) OverHTTP2() bool {
	return t.Pool.GetHttp().GetH2UpgradePolicy() == networking.ConnectionPoolSettings_HTTPSettings_UPGRADE
}

func (r *DestinationRule) readTraffic(p *networking.TrafficPolicy) {
	r.traffic = TrafficPolicy{p.GetLoadBalancer(), p.GetConnectionPool(), p.GetOutlierDetection()}
	for _, port := range p.GetPortLevelSettings() {
		if r.portTraffic == nil {
			r.portTraffic = map[uint32]TrafficPolicy{}
		}
		if number := port.GetPort().GetNumber(); !has(r.portTraffic, number) {
			r.portTraffic[number] = TrafficPolicy{port.GetLoadBalancer(), port.GetConnectionPool(), port.GetOutlierDetection()}
		}
	}
}

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

// MostInTable is how many entries a table for consistent hashing has at most: each cluster has one, and whoever writes a rule
// must not take a shared gateway's memory. It is Envoy's own size for Maglev, and a prime number.
const MostInTable = 65537

// SubsetTraffic is what a rule says for a port of a subset: as in Istio, each part that the subset has stands in for the rule's, and
// what it has for the port stands in for all of that, whatever it leaves out. "" is no subset.
func (r *DestinationRule) SubsetTraffic(name string, port uint32) TrafficPolicy {
	t := r.TrafficFor(port)
	s, ok := r.Subset(name)
	if !ok {
		return t
	}
	if own, ok := s.portTraffic[port]; ok {
		return own
	}
	own := s.traffic
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
		if own, ok := s.portTraffic[port]; ok {
			return cmp.Or(own.connectTimeout(), def)
		}
		return cmp.Or(s.traffic.connectTimeout(), r.ConnectTimeoutFor(port, def))
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
	r.sortSubsets()
}

func (r *DestinationRule) sortSubsets() {
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
