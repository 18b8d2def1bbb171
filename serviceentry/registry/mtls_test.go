package registry_test

import (
	"testing"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// A setting comes to proxies one after the other: a pod that told clients that it takes mutual TLS goes on taking it when the setting is
// off already for the pod, and not yet for a client.
func TestPodsTakeWhatTheyTold(t *testing.T) {
	for _, tt := range []struct {
		name   string
		on     bool
		labels map[string]string
		want   registry.InboundKey
	}{
		{"off", false, nil, ""},
		{"off, but told", false, map[string]string{"security.istio.io/tlsMode": "istio"}, "PERMISSIVE"},
		{"on", true, nil, "PERMISSIVE"},
	} {
		cfg := mesh.Default()
		cfg.MutualTLS = tt.on
		if got := registry.New(&cfg).Snapshot().Inbound("shop", tt.labels, "10.0.0.1"); got != tt.want {
			t.Errorf("%s: lets in %q, want %q", tt.name, got, tt.want)
		}
	}
}
