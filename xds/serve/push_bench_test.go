package serve_test

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/xds/resource"
	nodewire "github.com/sallyport/sallyport/xds/wire"
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

// BenchmarkPushNames publishes a new ServiceEntry to 100 sidecars, until all have acknowledged its row and its name, and takes it back: with agents that wait for
// their Envoys themselves, and with such that do not. The clients are in the same process and count.
func BenchmarkPushNames(b *testing.B) {
	for _, waits := range []bool{false, true} {
		b.Run(fmt.Sprintf("waits=%t", waits), func(b *testing.B) {
			p := startPlane(b, "api.example.com")
			var clients []*peer
			for i := range 100 {
				n := pod(fmt.Sprintf("pod-%d", i), "ns")
				if waits {
					n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{nodewire.NamesWaitMetadata: structpb.NewStringValue("true")}}
				}
				c := p.join(n)
				for _, t := range []resource.Type{resource.VirtualHost, resource.Name} {
					c.ask(t)
					c.take()
					c.node = nil // it says who it is once
				}
				clients = append(clients, c)
			}
			change := p.entry("new.example.com", "*")
			both := func() {
				var done sync.WaitGroup
				for _, c := range clients {
					done.Go(func() { c.take(); c.take() })
				}
				done.Wait()
			}
			before := cpu()
			b.ReportAllocs()
			for b.Loop() {
				p.publish(change)
				both()
				p.publish(config.Change{Key: change.Key})
				both()
			}
			b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N)/200, "cpu-µs/stream")
		})
	}
}

// cpu is the processor time that the process has used.
func cpu() time.Duration { return usage(syscall.RUSAGE_SELF) }

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
