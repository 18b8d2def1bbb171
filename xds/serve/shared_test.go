package serve_test

import (
	"fmt"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/serve"
)

// TestForgottenClient holds that one that acknowledges nothing delays no other, and has to begin anew when it is heard
// of after very long.
func TestForgottenClient(t *testing.T) {
	p := startPlane(t, "a.example")
	silent, other := p.join(pod("silent", "some-ns")), p.join(pod("other", "some-ns"))
	silent.ask(resource.Name)
	unanswered := silent.next()
	other.ask(resource.Name)
	other.take()
	for range 1100 {
		p.publish(p.entry("a.example", "*"))
		if got := other.take().GetResources(); len(got) != 1 {
			t.Fatalf("the other one got %v", got)
		}
	}
	silent.send(&discovery.DeltaDiscoveryRequest{TypeUrl: unanswered.GetTypeUrl(), ResponseNonce: unanswered.GetNonce()})
	if _, err := silent.stream.Recv(); grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("the silent client was told %v", err)
	}
}

// TestSharedBytes holds that what a client decodes is what was sealed.
func TestSharedBytes(t *testing.T) {
	p := startPlane(t, "a.example", "b.example")
	c := p.join(pod("p", "some-ns"))
	c.ask(resource.VirtualHost)
	r := c.take()
	view, _, ok := p.cache.ViewOf(c.node.GetId())
	if !ok {
		t.Fatal("the proxy is not known")
	}
	for _, got := range r.GetResources() {
		sealed, ok := view.Get(resource.VirtualHost, got.GetName())
		if !ok || got.GetVersion() != sealed.Version || !proto.Equal(got.GetResource(), sealed.Any()) {
			t.Errorf("%s: %v is not what was sealed", got.GetName(), got)
		}
	}
	if len(r.GetResources()) != view.Len(resource.VirtualHost) || len(r.GetResources()) < 4 {
		t.Errorf("%d resources, the view has %d", len(r.GetResources()), view.Len(resource.VirtualHost))
	}
}

// TestSharedBytesOfOldStreams holds the same for state-of-the-world streams.
func TestSharedBytesOfOldStreams(t *testing.T) {
	l := newLab(t, everybody, append(inUse(), fixed("default", "one", "one.test", "192.0.2.1"))...)
	for _, name := range []string{"first", "second"} {
		c := l.connectOld(node(name, "default"))
		for _, typ := range []resource.Type{resource.Cluster, resource.Listener} {
			c.ask(typ)
			c.next(typ)
			view, _, _ := l.cache.ViewOf(node(name, "default").Id)
			var want []*anypb.Any
			view.Walk(typ, func(r *resource.Resource) bool { want = append(want, r.Any()); return true })
			got := c.last[typ.URL()].GetResources()
			if len(got) != len(want) || len(got) == 0 {
				t.Fatalf("%s: %d resources, the view has %d", typ.URL(), len(got), len(want))
			}
			for i := range got {
				if !proto.Equal(got[i], want[i]) {
					t.Errorf("%s: %v is not what was sealed", typ.URL(), got[i])
				}
			}
		}
	}
}

// TestTurnsEndWhenWritten holds that clients which take a large answer without acknowledging it let the next ones in:
// there are more of them than turns, and no turn runs out in this test.
func TestTurnsEndWhenWritten(t *testing.T) {
	serve.SetTurnTime(t, time.Hour)
	var hosts []string
	for i := range 1000 {
		hosts = append(hosts, fmt.Sprintf("api.service-%d.example.com", i))
	}
	p := startPlane(t, hosts...)
	for i := range 50 {
		c := p.join(pod(fmt.Sprintf("pod-%d", i), "some-ns"))
		c.ask(resource.VirtualHost)
		if n := proto.Size(c.next()); n < 256<<10 {
			t.Fatalf("the answer has %d bytes, too few to need a turn", n)
		}
	}
}
