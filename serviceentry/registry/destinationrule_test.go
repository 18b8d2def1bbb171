package registry

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// TestPortSettingsStandInForAll: of a rule's settings for all ports nothing holds for a port that has its own, whatever those
// leave out (istio.io, TrafficPolicy.portLevelSettings).
func TestPortSettingsStandInForAll(t *testing.T) {
	cfg := mesh.Default()
	pool := func(within time.Duration) *networking.ConnectionPoolSettings {
		return &networking.ConnectionPoolSettings{Tcp: &networking.ConnectionPoolSettings_TCPSettings{ConnectTimeout: durationpb.New(within)}}
	}
	tls := func(mode networking.ClientTLSSettings_TLSmode) *networking.ClientTLSSettings {
		return &networking.ClientTLSSettings{Mode: mode}
	}
	port := func(number uint32, p *networking.TrafficPolicy_PortTrafficPolicy) *networking.TrafficPolicy_PortTrafficPolicy {
		p.Port = &networking.PortSelector{Number: number}
		return p
	}
	rule := fromDestinationRule(&config.Object{Key: config.Key{Namespace: "default", Name: "r"}}, &networking.DestinationRule{
		Host: "api.example.com",
		TrafficPolicy: &networking.TrafficPolicy{
			Tls: tls(networking.ClientTLSSettings_MUTUAL), ConnectionPool: pool(2 * time.Second),
			PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{
				port(81, &networking.TrafficPolicy_PortTrafficPolicy{ConnectionPool: pool(3 * time.Second)}),
				port(82, &networking.TrafficPolicy_PortTrafficPolicy{Tls: tls(networking.ClientTLSSettings_SIMPLE)}),
				port(83, &networking.TrafficPolicy_PortTrafficPolicy{}),
			},
		},
	}, &cfg)
	const usual = 10 * time.Second
	simple, mutual := TLSSimple, TLSMutual
	for _, want := range []struct {
		port   uint32
		tls    *TLSMode
		within time.Duration
	}{{80, &mutual, 2 * time.Second}, {81, nil, 3 * time.Second}, {82, &simple, usual}, {83, nil, usual}} {
		got := rule.TLSFor(want.port)
		if (got == nil) != (want.tls == nil) || got != nil && got.Mode != *want.tls {
			t.Errorf("port %d: TLS %+v", want.port, got)
		}
		if within := rule.ConnectTimeoutFor(want.port, usual); within != want.within {
			t.Errorf("port %d: connecting within %v, want %v", want.port, within, want.within)
		}
	}
}

// TestSubsetsPortStandsInForAll: what a subset says of a port stands in for all of its own settings and of the rule's, whatever it leaves out, as in
// Istio; of other ports each part of the subset's own stands in for the rule's.
func TestSubsetsPortStandsInForAll(t *testing.T) {
	cfg := mesh.Default()
	within := func(d time.Duration) *networking.ConnectionPoolSettings {
		return &networking.ConnectionPoolSettings{Tcp: &networking.ConnectionPoolSettings_TCPSettings{ConnectTimeout: durationpb.New(d)}}
	}
	rule := fromDestinationRule(&config.Object{Key: config.Key{Namespace: "default", Name: "r"}}, &networking.DestinationRule{
		Host: "api.example.com",
		TrafficPolicy: &networking.TrafficPolicy{
			ConnectionPool: within(2 * time.Second), OutlierDetection: &networking.OutlierDetection{MaxEjectionPercent: 5},
		},
		Subsets: []*networking.Subset{{Name: "v1", TrafficPolicy: &networking.TrafficPolicy{
			LoadBalancer:      &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_Simple{Simple: networking.LoadBalancerSettings_RANDOM}},
			PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{{Port: &networking.PortSelector{Number: 81}, OutlierDetection: &networking.OutlierDetection{MaxEjectionPercent: 9}}},
		}}},
	}, &cfg)
	const usual = 10 * time.Second
	if at := rule.SubsetTraffic("v1", 80); at.Balancer == nil || at.Pool == nil || at.Outlier.GetMaxEjectionPercent() != 5 || rule.ConnectTimeoutOf("v1", 80, usual) != 2*time.Second {
		t.Errorf("port 80: %+v", at)
	}
	if at := rule.SubsetTraffic("v1", 81); at.Balancer != nil || at.Pool != nil || at.Outlier.GetMaxEjectionPercent() != 9 || rule.ConnectTimeoutOf("v1", 81, usual) != usual {
		t.Errorf("port 81: %+v", at)
	}
}
