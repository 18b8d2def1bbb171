package registry

import (
	"testing"

	"github.com/sallyport/sallyport/config/mesh"
)

// TestOpenedOnce: what a gateway opens, and where it does not connect to, is worked out once, whatever its pods say of the proxies in front of them or of sessions of UDP: they may say
// another thing each time. HTTP/3 alone goes by what they say.
func TestOpenedOnce(t *testing.T) {
	cfg := mesh.Default()
	s := New(&cfg).Snapshot()
	for hops := range uint32(64) {
		for _, proxyProtocol := range []bool{false, true} {
			i := Ingress{Namespace: "n", Labels: "istio=in", Sessions: 1 << (hops % 32), Topology: mesh.GatewayTopology{
				Said: true, TrustedProxies: hops, ProxyProtocol: proxyProtocol, ClientCertificates: mesh.ClientCertificates(hops % 5),
			}}
			s.Opened(i)
			s.RefusedAt(i)
		}
	}
	if opened, refused := len(s.opened.of), len(s.refusals.of); opened != 2 || refused != 1 {
		t.Errorf("worked out %d and %d times, want 2 and 1", opened, refused)
	}
}
