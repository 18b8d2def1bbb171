package serve_test

import (
	"fmt"
	"testing"

	"github.com/sallyport/sallyport/xds/resource"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// BenchmarkPush publishes one changed ServiceEntry to 100 streams in many namespaces, until all have acknowledged
// it. The clients are in the same process and count.
func BenchmarkPush(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			var hosts []string
			for i := range n {
				hosts = append(hosts, fmt.Sprintf("api.service-%d.example.com", i))
			}
			p := startPlane(b, hosts...)
			var clients []*peer
			for i := range 100 {
				c := p.join(pod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("ns-%d", i%50)))
				c.ask(resource.VirtualHost)
				c.take()
				clients = append(clients, c)
			}
			b.ReportAllocs()
			for b.Loop() {
				p.publish(p.entry(hosts[7], "*"))
				for _, c := range clients {
					if got := len(c.take().GetResources()); got == 0 {
						b.Fatal("nothing changed")
					}
				}
			}
		})
	}
}

// BenchmarkConnect lets one more proxy come, until it has everything.
func BenchmarkConnect(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			var hosts []string
			for i := range n {
				hosts = append(hosts, fmt.Sprintf("api.service-%d.example.com", i))
			}
			p := startPlane(b, hosts...)
			stays := p.join(pod("stays", "ns"))
			stays.ask(resource.Name)
			stays.take()
			b.ReportAllocs()
			for b.Loop() {
				c := p.join(pod("comes", "ns"))
				c.ask(resource.Name)
				c.take()
				c.close()
			}
		})
	}
}

// BenchmarkConnectOld lets one more state-of-the-world client come, until it has a table that lists the mesh.
func BenchmarkConnectOld(b *testing.B) {
	var hosts []string
	for i := range 1000 {
		hosts = append(hosts, fmt.Sprintf("api.service-%d.example.com", i))
	}
	p := startPlane(b, hosts...)
	old := func(name string) (take func(), leave func()) {
		c := p.join(pod(name, "ns"))
		stream, err := discovery.NewAggregatedDiscoveryServiceClient(c.conn).StreamAggregatedResources(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		return func() {
			err := stream.Send(&discovery.DiscoveryRequest{Node: c.node, TypeUrl: resource.Route.URL(), ResourceNames: []string{"443", "80"}})
			if err != nil {
				b.Fatal(err)
			}
			if r, err := stream.Recv(); err != nil || len(r.GetResources()) != 2 {
				b.Fatal(err)
			}
		}, c.close
	}
	stays, _ := old("stays")
	stays()
	b.ReportAllocs()
	for b.Loop() {
		take, leave := old("comes")
		take()
		leave()
	}
}
