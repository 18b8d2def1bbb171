package registry

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// TestFirstOfTwoForOnePort: of two settings of a rule for one port the first counts, as in Istio.
func TestFirstOfTwoForOnePort(t *testing.T) {
	of := func(mode networking.ClientTLSSettings_TLSmode, most int32) *networking.TrafficPolicy_PortTrafficPolicy {
		return &networking.TrafficPolicy_PortTrafficPolicy{
			Port: &networking.PortSelector{Number: 80}, Tls: &networking.ClientTLSSettings{Mode: mode},
			ConnectionPool: &networking.ConnectionPoolSettings{Tcp: &networking.ConnectionPoolSettings_TCPSettings{MaxConnections: most}},
		}
	}
	policy := &networking.TrafficPolicy{PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{
		of(networking.ClientTLSSettings_SIMPLE, 1), of(networking.ClientTLSSettings_DISABLE, 2),
	}}
	cfg := mesh.Default()
	r := fromDestinationRule(&config.Object{Key: config.Key{Kind: config.KindDestinationRule, Namespace: "a", Name: "r"}}, &networking.DestinationRule{
		Host: "external.com", TrafficPolicy: policy, Subsets: []*networking.Subset{{Name: "v1", TrafficPolicy: policy}},
	}, &cfg)
	if got := r.TLSFor(80); got == nil || got.Mode != TLSSimple {
		t.Errorf("TLS is %+v, want the first's", got)
	}
	for name, got := range map[string]TrafficPolicy{"the rule": r.TrafficFor(80), "the subset": r.SubsetTraffic("v1", 80)} {
		if most := got.Pool.GetTcp().GetMaxConnections(); most != 1 {
			t.Errorf("%s has %d connections at most, want the first's 1", name, most)
		}
	}
}
