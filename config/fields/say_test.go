package fields

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
)

// TestRemarks: what is refused is said wherever it is, what is warned of once.
func TestRemarks(t *testing.T) {
	rule := &networking.DestinationRule{
		Host: "a.com",
		TrafficPolicy: &networking.TrafficPolicy{
			LoadBalancer:   &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_Simple{Simple: networking.LoadBalancerSettings_ROUND_ROBIN}},
			ConnectionPool: &networking.ConnectionPoolSettings{Tcp: &networking.ConnectionPoolSettings_TCPSettings{IdleTimeout: durationpb.New(time.Second)}},
		},
		Subsets: []*networking.Subset{
			{Name: "v1", TrafficPolicy: &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_Simple{Simple: networking.LoadBalancerSettings_RANDOM}}}},
			{Name: "v2", TrafficPolicy: &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE}}},
		},
	}
	want := []string{
		"warned spec.trafficPolicy.connectionPool.tcp.idleTimeout", "refused spec.subsets[1].trafficPolicy.tls",
	}
	var got []string
	for _, r := range Of("DestinationRule").Remarks(rule, "spec") {
		got = append(got, fmt.Sprintf("%s %s", r.Fate, r.Path))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	deny := &security.AuthorizationPolicy{Action: security.AuthorizationPolicy_DENY, Rules: []*security.Rule{{}}}
	if r := Of("AuthorizationPolicy").Remarks(deny, "spec"); len(r) != 0 {
		t.Errorf("DENY for all: %+v", r)
	}
	deny.Action = security.AuthorizationPolicy_CUSTOM
	if r := Of("AuthorizationPolicy").Remarks(deny, "spec"); len(r) != 0 {
		t.Errorf("CUSTOM: %+v", r)
	}
}
