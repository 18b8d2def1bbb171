package serve_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/sallyport/sallyport/xds/resource"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// oldClient is a state-of-the-world stream.
type oldClient struct {
	*lab
	stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	node   *core.Node
	last   map[string]*discovery.DiscoveryResponse
	got    chan *discovery.DiscoveryResponse
	stop   context.CancelFunc
}

func (l *lab) connectOld(n *core.Node) *oldClient {
	l.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(l.conn).StreamAggregatedResources(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	c := &oldClient{lab: l, stream: stream, node: n, last: map[string]*discovery.DiscoveryResponse{}, got: make(chan *discovery.DiscoveryResponse, 64), stop: stop}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			resp, err := stream.Recv()
			if err != nil {
				return
			}
			c.got <- resp
		}
	}()
	l.t.Cleanup(func() { stop(); <-ended })
	return c
}

// ask asks for names, or everything, and says what was taken last.
func (c *oldClient) ask(t resource.Type, names ...string) {
	c.t.Helper()
	last := c.last[t.URL()]
	c.say(t, last.GetVersionInfo(), "", names...)
}

func (c *oldClient) say(t resource.Type, version, problem string, names ...string) {
	c.t.Helper()
	req := &discovery.DiscoveryRequest{
		Node: c.node, TypeUrl: t.URL(), ResourceNames: names, VersionInfo: version, ResponseNonce: c.last[t.URL()].GetNonce(),
	}
	if problem != "" {
		req.ErrorDetail = &rpcstatus.Status{Message: problem}
	}
	c.node = nil
	if err := c.stream.Send(req); err != nil {
		c.t.Fatal(err)
	}
}

// next gives the number of resources in the next response, and its version.
func (c *oldClient) next(t resource.Type) (n int, version string) {
	c.t.Helper()
	select {
	case resp := <-c.got:
		if resp.GetTypeUrl() != t.URL() {
			c.t.Fatalf("a response of type %s, want %s", resp.GetTypeUrl(), t.URL())
		}
		c.last[t.URL()] = resp
		return len(resp.GetResources()), resp.GetVersionInfo()
	case <-time.After(patience):
		c.t.Fatalf("no response of type %s", t.URL())
		return 0, ""
	}
}

// TestStateOfTheWorld: an old client gets all of a type whenever something of it changed, and hosts inside their
// tables, since it cannot take them one by one.
func TestStateOfTheWorld(t *testing.T) {
	l := newLab(t, everybody, append(inUse(), fixed("default", "one", "one.test", "192.0.2.1"))...)
	c := l.connectOld(node("app", "default"))
	c.ask(resource.Cluster)
	clusters, first := c.next(resource.Cluster)
	c.ask(resource.Cluster) // an ack
	c.ask(resource.Endpoints, "outbound|443||one.test", "outbound|443||none.test")
	if n, _ := c.next(resource.Endpoints); n != 1 { // and nothing for the ack before
		t.Errorf("%d endpoints", n)
	}
	c.ask(resource.Endpoints, "outbound|443||one.test", "outbound|443||none.test")
	c.ask(resource.Route, "443")
	c.next(resource.Route)
	table := c.last[resource.Route.URL()].GetResources()[0]
	if !slices.Contains(names(t, table), "443/one.test") {
		t.Errorf("the hosts are not in their table: %v", names(t, table))
	}
	c.ask(resource.Route, "443")

	l.apply(fixed("default", "two", "two.test", "192.0.2.2"))
	n, second := c.next(resource.Cluster)
	if n != clusters+1 || second == first {
		t.Errorf("%d clusters, were %d; version %s, was %s", n, clusters, second, first)
	}
	if n, _ := c.next(resource.Route); n != 1 || !slices.Contains(names(t, c.last[resource.Route.URL()].GetResources()[0]), "443/two.test") {
		t.Error("the new host is not in the table")
	}
	c.say(resource.Cluster, first, "bad cluster") // a nack: it keeps what it had
	l.becomes("the refusal is shown", func() bool {
		p := l.cache.Proxies()[0]
		return !p.Synced && p.Types[resource.Cluster.URL()].Problem == "bad cluster"
	})
	c.ask(resource.Listener)
	c.next(resource.Listener) // and not the refused clusters once more
	l.apply(fixed("default", "two", "two.test", "192.0.2.2"), fixed("default", "three", "three.test", "192.0.2.3"))
	if n, _ := c.next(resource.Cluster); n != clusters+2 {
		t.Errorf("%d clusters after the next change, want %d", n, clusters+2)
	}
	c.stop()

	again := l.connectOld(node("app", "default"))
	again.say(resource.Cluster, c.last[resource.Cluster.URL()].GetVersionInfo(), "") // it has that version
	again.ask(resource.Listener)
	if n, _ := again.next(resource.Listener); n == 0 {
		t.Error("no listeners")
	}
}

// names are those of a table's virtual hosts.
func names(t *testing.T, table *anypb.Any) []string {
	t.Helper()
	r := &routev3.RouteConfiguration{}
	if err := table.UnmarshalTo(r); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, vh := range r.GetVirtualHosts() {
		out = append(out, vh.GetName())
	}
	return out
}
