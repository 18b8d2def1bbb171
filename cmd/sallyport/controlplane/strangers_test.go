package controlplane

import (
	"log/slog"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
)

// none is a source of nothing.
type none struct{ config.Source }

func (none) Findings() []admission.Finding { return nil }

// TestNoMessageBeforeTheGuard: the port that everybody reaches has no unary method, whose message is read before the guard is asked.
func TestNoMessageBeforeTheGuard(t *testing.T) {
	p, err := newPlane(t.Context(), Config{DataDir: t.TempDir(), AuditSocket: "/nowhere", Source: none{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.secureServer(t.Context(), "cluster.local")
	if err != nil {
		t.Fatal(err)
	}
	defer s.server.Stop()
	services := s.server.GetServiceInfo()
	for _, name := range []string{"istio.v1.auth.IstioCertificateService", "envoy.service.discovery.v3.AggregatedDiscoveryService"} {
		if len(services[name].Methods) == 0 {
			t.Errorf("%s is not served", name)
		}
	}
	for name, service := range services {
		for _, m := range service.Methods {
			if !m.IsClientStream && !m.IsServerStream {
				t.Errorf("%s/%s is unary", name, m.Name)
			}
		}
	}
}
