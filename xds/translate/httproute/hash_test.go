package httproute_test

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
	"github.com/sallyport/sallyport/xds/translate/httproute"
)

// TestEachDestinationsHash: whatever one of a route's destinations asks to be chosen by is hashed, also where the first asks for nothing.
func TestEachDestinationsHash(t *testing.T) {
	by := func(header string) registry.TrafficPolicy {
		return registry.TrafficPolicy{Balancer: &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_ConsistentHash{
			ConsistentHash: &networking.LoadBalancerSettings_ConsistentHashLB{HashKey: &networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName{HttpHeaderName: header}},
		}}}
	}
	for _, tt := range []struct {
		ends []registry.TrafficPolicy
		want []string
	}{
		{[]registry.TrafficPolicy{{}, by("x-user")}, []string{"x-user"}},
		{[]registry.TrafficPolicy{by("x-user"), by("x-user"), by("x-team")}, []string{"x-user", "x-team"}},
		{[]registry.TrafficPolicy{{}, {}}, nil},
	} {
		h := &route.HTTP{}
		var ends []httproute.End
		for _, traffic := range tt.ends {
			h.Destinations = append(h.Destinations, route.HTTPDestination{Weight: 1})
			ends = append(ends, httproute.End{Cluster: "c", Traffic: traffic})
		}
		var got []string
		for _, p := range httproute.Render(h, &route.HTTPMatch{}, 80, ends, nil).GetRoute().GetHashPolicy() {
			got = append(got, p.GetHeader().GetHeaderName())
		}
		if len(got) != len(tt.want) || len(got) > 0 && (got[0] != tt.want[0] || got[len(got)-1] != tt.want[len(got)-1]) {
			t.Errorf("%d destinations: hashed by %v, want %v", len(tt.ends), got, tt.want)
		}
	}
}
