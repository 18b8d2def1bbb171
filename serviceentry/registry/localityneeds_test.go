package registry

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/serviceentry/locality"
)

// TestForKeepsWhatCounts: the mesh's setting stays where a host's endpoints are told apart by it, also where it asks nothing about the client.
func TestForKeepsWhatCounts(t *testing.T) {
	noticed, plain := &DestinationRule{traffic: TrafficPolicy{Outlier: &networking.OutlierDetection{}}}, &DestinationRule{}
	noticed.tellApart()
	plain.tellApart()
	client := locality.Client{Locality: "r/z", Node: "n", Labels: "a=b"}
	for _, c := range []struct {
		name   string
		labels []string
		rule   *DestinationRule
		counts bool
		want   locality.Client
		traits Traits
	}{
		{"written values", []string{"version=2"}, noticed, true, locality.Client{}, Traits{}},
		{"places", nil, noticed, true, locality.Client{Locality: "r/z"}, Traits{}},
		{"a label", []string{"a"}, noticed, true, locality.Client{Labels: "a=b"}, Traits{}},
		{"another label", []string{"c"}, noticed, true, locality.Client{}, Traits{}},
		{"failures that nobody notices", nil, plain, false, locality.Client{}, Traits{}},
		{"the own Node", nil, nil, false, locality.Client{Node: "n"}, Traits{NodeLocal: true}},
	} {
		near := ClientLocation{Client: client, Default: &networking.LocalityLoadBalancerSetting{FailoverPriority: c.labels}}
		if got := near.For(ServiceAndRule{&Service{Traits: &c.traits}, c.rule}); got.Client != c.want || (got.Default != nil) != c.counts {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
