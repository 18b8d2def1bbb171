package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// TestLongNames: hosts have names of up to 253 bytes. Requests reach them, and so does TLS straight from the pod; by a gateway TLS goes to names
// that fit into a TLS name with what a tunnel says beside (231 bytes at port 443 for namespace default), and one more byte is closed, as explain says.
func TestLongNames(t *testing.T) {
	needRoot(t)
	ctx, s := setScene(t, story.InNamespaces)
	serveOther(ctx, t, s, []uint16{80, 443, 7001})
	app := appOf(s)
	for _, c := range []struct {
		name, scheme, protocol, gateway string
		port                            uint16
		length                          int
		peer                            netip.Addr // the zero Addr: it is closed
	}{
		{"requests", "http", "HTTP", "istio-system/istio-egressgateway", 80, 253, world.GatewayAddr},
		{"straight", "https", "TLS", "direct", 443, 253, world.AppAddr},
		{"tls", "https", "TLS", "istio-system/istio-egressgateway", 443, 231, world.GatewayAddr},
		{"tcp", "tcp", "TCP", "istio-system/istio-egressgateway", 7001, 230, world.GatewayAddr},
		{"over", "https", "TLS", "istio-system/istio-egressgateway", 443, 232, netip.Addr{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := longHost(c.length, c.name+".long.test")
			s.Outside.Set(host, time.Minute, otherAddr)
			if err := s.Config.Write(c.name+".yaml", fmt.Sprintf(
				"apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s, namespace: default, annotations: {egress.sallyport.io/gateway: %s}}\n"+
					"spec: {hosts: [%s], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %d, name: p, protocol: %s}]}\n",
				c.name, c.gateway, host, c.port, c.protocol)); err != nil {
				t.Fatal(err)
			}
			addr, err := app.answered(ctx, host)
			if err != nil {
				t.Fatal(err)
			}
			peer, err := app.at(addr).try(ctx, c.scheme, host, c.port, "/")
			said, _ := s.Call(ctx, "explain", "--config-dir", s.Config.Path, "--mesh-config", s.MeshConfig(), "--from", "default/app", fmt.Sprintf("%s://%s:%d", c.scheme, host, c.port))
			if c.peer.IsValid() && (err != nil || peer != c.peer) {
				t.Errorf("a name of %d bytes was reached from %s, want %s: %v", len(host), peer, c.peer, err)
			}
			if !c.peer.IsValid() && (err == nil || !strings.Contains(string(said), "at most 231")) {
				t.Errorf("a name of %d bytes was reached from %s, and explained as %s", len(host), peer, said)
			}
		})
	}
}

// longHost is a name of so many bytes, in labels of at most 60.
func longHost(length int, tail string) string {
	var labels []string
	for room := length - len(tail); room > 0; {
		n := min(60, room-1)
		if room-1-n == 1 { // a label has at least one byte, and its dot
			n--
		}
		labels = append(labels, strings.Repeat("a", n))
		room -= n + 1
	}
	return strings.Join(append(labels, tail), ".")
}
