package envoy_test

import (
	"testing"
	"time"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/envoy"
)

// TestClientsRestAsTheMeshSays: connections from outside that carry nothing stay for a quarter of an hour, or for as long as the settings say.
func TestClientsRestAsTheMeshSays(t *testing.T) {
	for said, want := range map[time.Duration]time.Duration{0: 15 * time.Minute, 10 * time.Second: 10 * time.Second} {
		m := new(hcmv3.HttpConnectionManager)
		if err := envoy.IngressHCM("http.80", mesh.Ingress{IdleTimeout: said}).GetTypedConfig().UnmarshalTo(m); err != nil {
			t.Fatal(err)
		}
		if got := m.GetCommonHttpProtocolOptions().GetIdleTimeout().AsDuration(); got != want {
			t.Errorf("with %v they rest for %v, want %v", said, got, want)
		}
	}
}
