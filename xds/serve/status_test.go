package serve_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/serve"
	"github.com/sallyport/sallyport/xds/translate"
)

// unread opens a stream that nobody reads.
func (l *lab) unread(n *core.Node) discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient {
	l.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l.t.Cleanup(stop)
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(l.conn).DeltaAggregatedResources(ctx)
	if err == nil {
		err = stream.Send(&discovery.DeltaDiscoveryRequest{Node: n, TypeUrl: resource.Cluster.URL()})
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return stream
}

// failure waits for the stream's end.
func (c *client) failure() error {
	c.t.Helper()
	select {
	case err := <-c.failed:
		return err
	case <-time.After(patience):
		c.t.Fatal("the stream goes on")
		return nil
	}
}

func request(t resource.Type) *discovery.DeltaDiscoveryRequest {
	return &discovery.DeltaDiscoveryRequest{TypeUrl: t.URL()}
}

func (c *client) refuse(t resource.Type, why string) {
	c.t.Helper()
	c.send(&discovery.DeltaDiscoveryRequest{
		TypeUrl: t.URL(), ResponseNonce: c.nonce[t.URL()],
		ErrorDetail: &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: why},
	})
}

// TestRefusal: a refused version is counted, shown, and not sent again; the next change is.
func TestRefusal(t *testing.T) {
	l := newLab(t, everybody)
	c := l.connect(node("app", "default"))
	c.ask(resource.VirtualHost)
	c.take(resource.VirtualHost)
	c.quiet()
	l.becomes("in sync", func() bool { return l.cache.Proxies()[0].Synced })
	l.apply(entry("default", "a", "a.test", httpPort))
	c.next(resource.VirtualHost)
	if p := l.cache.Proxies(); p[0].Synced {
		t.Errorf("in sync before its word: %+v", p)
	}
	c.refuse(resource.VirtualHost, "bad domain")
	c.quiet()
	p := l.cache.Proxies()[0]
	if of := p.Types[resource.VirtualHost.URL()]; p.Synced || of.Refused != 1 || of.Problem != "bad domain" {
		t.Errorf("%+v", p)
	}
	if n := l.counter("sallyport_xds_refused_total"); n != 1 {
		t.Errorf("%v refusals counted", n)
	}
	l.apply(entry("default", "a", "a.test", tlsPort))
	c.take(resource.VirtualHost)
	c.quiet()
	l.becomes("in sync again", func() bool { return l.cache.Proxies()[0].Synced })
	if p := l.cache.Proxies()[0]; p.Types[resource.VirtualHost.URL()].Refused != 1 || p.Namespace != "default" {
		t.Errorf("%+v", p)
	}
}

func TestConnectedProxiesAreCounted(t *testing.T) {
	l := newLab(t, everybody)
	c := l.connect(node("app", "default"))
	c.quiet()
	if n := l.counter("sallyport_xds_proxies"); n != 1 {
		t.Errorf("%v connected", n)
	}
	if _, _, ok := l.cache.ViewOf(node("app", "default").Id); !ok {
		t.Error("no view of it")
	}
	c.stop()
	l.becomes("nobody connected", func() bool { return l.counter("sallyport_xds_proxies") == 0 && len(l.cache.Proxies()) == 0 })
	if _, _, ok := l.cache.ViewOf(node("app", "default").Id); ok {
		t.Error("a view of who left")
	}
}

// TestNodes: who a proxy may say that it is.
func TestNodes(t *testing.T) {
	meta := func(ns string) *structpb.Struct {
		return &structpb.Struct{Fields: map[string]*structpb.Value{"NAMESPACE": structpb.NewStringValue(ns)}}
	}
	for _, tt := range []struct {
		name string
		node *core.Node
		want string // in the error; "" for none
	}{
		{"no node", nil, "must carry the node"},
		{"no id", &core.Node{}, "want TYPE~IP~POD.NAMESPACE~DOMAIN"},
		{"three parts", &core.Node{Id: "sidecar~10.0.0.1~a.default"}, "want TYPE~IP~POD.NAMESPACE~DOMAIN"},
		{"a type of its own", &core.Node{Id: "proxy~10.0.0.1~a.default~default.svc.cluster.local"}, `"proxy" is none of`},
		{"no namespace", &core.Node{Id: "sidecar~10.0.0.1~a~default.svc.cluster.local"}, "namespace"},
		{"two namespaces", &core.Node{Id: "sidecar~10.0.0.1~a.default~default.svc.cluster.local", Metadata: meta("shop")}, "namespace"},
		{"no metadata", &core.Node{Id: "sidecar~10.0.0.1~a.default~default.svc.cluster.local"}, ""},
		{"a router", &core.Node{Id: "router~10.0.0.1~a.default~default.svc.cluster.local"}, ""},
		{"a waypoint", &core.Node{Id: "waypoint~10.0.0.1~a.default~default.svc.cluster.local", Metadata: meta("default")}, ""},
		{"odd metadata", &core.Node{Id: "sidecar~x~a.b.default~y", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"NAMESPACE": structpb.NewNumberValue(1), "LABELS": structpb.NewStringValue("x"), "INSTANCE_IPS": structpb.NewNullValue(),
		}}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newLab(t, everybody).connect(tt.node)
			c.ask(resource.Cluster)
			if tt.want == "" {
				c.take(resource.Cluster)
				return
			}
			err := c.failure()
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestTurnedAway: who is not authorized gets the reason and nothing else.
func TestTurnedAway(t *testing.T) {
	asked := make(chan translate.Node, 1)
	l := newLab(t, func(_ context.Context, n translate.Node) (translate.Node, error) {
		asked <- n
		return n, status.Error(codes.PermissionDenied, "not you")
	})
	c := l.connect(node("app", "default", "app", "web"))
	c.ask(resource.Cluster)
	if n := <-asked; n.Namespace != "default" || n.Labels["app"] != "web" || n.Inline {
		t.Errorf("asked about %+v", n)
	}
	if err := c.failure(); status.Code(err) != codes.PermissionDenied {
		t.Error(err)
	}
	l.becomes("nobody connected", func() bool { return len(l.cache.Proxies()) == 0 })
}

// TestKnownBetter: what the server knows of a proxy counts, not what the proxy says.
func TestKnownBetter(t *testing.T) {
	private := entry("default", "own", "own.test", httpPort)
	private.Spec.(*networking.ServiceEntry).ExportTo = []string{"."}
	l := newLab(t, func(_ context.Context, n translate.Node) (translate.Node, error) {
		n.Namespace = "shop"
		return n, nil
	}, private, entry("default", "all", "all.test", httpPort))
	c := l.connect(node("app", "default", "app", "web"))
	c.ask(resource.VirtualHost)
	if a := c.take(resource.VirtualHost); a.has("80/own.test") || !a.has("80/all.test") {
		t.Errorf("what is private to the claimed namespace was sent: %+v", a)
	}
}

// TestForeignPod: a pod that the registry never saw is served what its namespace sees.
func TestForeignPod(t *testing.T) {
	l := newLab(t, everybody, entry("load", "own", "own.test", httpPort), entry("load", "all", "all.test", tlsPort))
	c := l.connect(node("pod-7", "load", "app", "load"))
	c.ask(resource.VirtualHost)
	if a := c.take(resource.VirtualHost); !a.has("80/own.test") || !a.has("443/all.test") {
		t.Errorf("%+v", a)
	}
}

func TestPollingIsNotOffered(t *testing.T) {
	_, err := discovery.NewAggregatedDiscoveryServiceClient(newLab(t, everybody).conn).StreamAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := serve.NewCache(nil).Fetch(t.Context(), nil); err == nil || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
