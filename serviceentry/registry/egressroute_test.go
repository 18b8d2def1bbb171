package registry_test

import (
	"testing"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestRoutedPorts: a port that a route names is the one that is connected to, whatever TLS is beside it; only at 443 it is TLS by itself.
func TestRoutedPorts(t *testing.T) {
	s := &registry.Service{Host: "a.test", Traits: &registry.Traits{}, Ports: []registry.Port{{Number: 80, TargetPort: 80, Explicit: true, Protocol: registry.HTTP}}}
	led := s.WithRouted([]uint32{80, 443, 8081}, func(port uint32) bool { return port == 443 })
	if len(s.Ports) != 1 || len(led.Ports) != 3 || led.Hash == s.Hash {
		t.Fatalf("%+v, %+v", s, led)
	}
	for _, p := range led.Ports {
		if tls, to := registry.Origination(led, p, nil); tls != nil || to != p.Number || p.Routed == (p.Number == 80) {
			t.Errorf("%+v: to %d, %+v", p, to, tls)
		}
	}
}
