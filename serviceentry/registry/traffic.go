package registry

import (
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
		r.portTraffic[port.GetPort().GetNumber()] = TrafficPolicy{port.GetLoadBalancer(), port.GetConnectionPool(), port.GetOutlierDetection()}
	}
}
