package serve_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/serve"
	"github.com/sallyport/sallyport/xds/translate"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// lab is a control plane's xDS half: a registry that is changed by hand, and a real gRPC server.
type lab struct {
	t        *testing.T
	registry *registry.Registry
	cache    *serve.Cache
	metrics  *prometheus.Registry
	conn     *grpc.ClientConn
	version  uint64
	machines machineLog
}

// patience bounds every wait: a test that has to wait this long has failed.
const patience = time.Minute

func everybody(_ context.Context, n translate.Node) (translate.Node, error) { return n, nil }

func newLab(t *testing.T, authorize serve.Authorize, objects ...*config.Object) *lab {
	t.Helper()
	return newLabOf(t, mesh.Default(), authorize, objects...)
}

// newLabOf is one with the mesh's settings.
func newLabOf(t *testing.T, cfg mesh.Config, authorize serve.Authorize, objects ...*config.Object) *lab {
	t.Helper()
	l := &lab{t: t, registry: registry.New(&cfg), metrics: prometheus.NewRegistry()}
	l.cache = serve.NewCache(l.registry.Snapshot())
	l.apply(objects...)
	pipe := bufconn.Listen(1 << 20)
	g := grpc.NewServer(grpc.ForceServerCodecV2(serve.Codec()))
	ctx, stop := context.WithCancel(context.Background())
	server := serve.NewServer(l.cache, authorize, serve.NewMetrics(l.metrics), slog.New(slog.DiscardHandler))
	server.Follow(&l.machines)
	server.Register(ctx, g)
	served := make(chan struct{})
	go func() { defer close(served); _ = g.Serve(pipe) }()
	conn, err := grpc.NewClient("passthrough:///lab",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	l.conn = conn
	t.Cleanup(func() {
		_ = conn.Close()
		stop()
		g.Stop()
		<-served
	})
	return l
}

// apply changes objects and publishes what comes of it, as one step.
func (l *lab) apply(objects ...*config.Object) {
	l.t.Helper()
	var changes []config.Change
	for _, o := range objects {
		l.version++
		o.Hash = l.version
		changes = append(changes, config.Change{Key: o.Key, Object: o})
	}
	l.publish(changes)
}

func (l *lab) remove(objects ...*config.Object) {
	var changes []config.Change
	for _, o := range objects {
		changes = append(changes, config.Change{Key: o.Key})
	}
	l.publish(changes)
}

func (l *lab) publish(changes []config.Change) {
	snapshot, changed := l.registry.Apply(changes)
	if !changed.Empty() {
		l.cache.Publish(snapshot, changed)
	}
}

// counter reads a metric's sum over its labels.
func (l *lab) counter(name string) (sum float64) {
	families, err := l.metrics.Gather()
	if err != nil {
		l.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// becomes waits for what another goroutine does to the cache.
func (l *lab) becomes(what string, is func() bool) {
	l.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			l.t.Fatalf("never: %s", what)
		}
	}
}

// node is a sidecar's as istio's agents write it.
func node(pod, ns string, labels ...string) *core.Node {
	fields := map[string]*structpb.Value{}
	for i := 0; i+1 < len(labels); i += 2 {
		fields[labels[i]] = structpb.NewStringValue(labels[i+1])
	}
	return &core.Node{
		Id: "sidecar~10.1.2.3~" + pod + "." + ns + "~" + ns + ".svc.cluster.local",
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"NAMESPACE": structpb.NewStringValue(ns), "CLUSTER_ID": structpb.NewStringValue("Kubernetes"),
			"ISTIO_VERSION": structpb.NewStringValue("1.31.1"),
			"LABELS":        structpb.NewStructValue(&structpb.Struct{Fields: fields}),
		}},
	}
}

// client is one delta stream.
type client struct {
	*lab
	stream discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	node   *core.Node
	nonce  map[string]string
	got    chan *discovery.DeltaDiscoveryResponse
	failed chan error
	stop   context.CancelFunc
	bars   int
}

func (l *lab) connect(n *core.Node) *client {
	l.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(l.conn).DeltaAggregatedResources(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	return l.over(stream, n, stop)
}

func (l *lab) over(stream discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, n *core.Node, stop context.CancelFunc) *client {
	c := &client{
		lab: l, stream: stream, node: n, nonce: map[string]string{}, stop: stop,
		got: make(chan *discovery.DeltaDiscoveryResponse, 64), failed: make(chan error, 1),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			resp, err := stream.Recv()
			if err != nil {
				c.failed <- err
				return
			}
			c.got <- resp
		}
	}()
	l.t.Cleanup(func() { stop(); <-ended })
	return c
}

// send adds the node, the first time, and sends.
func (c *client) send(req *discovery.DeltaDiscoveryRequest) {
	c.t.Helper()
	req.Node, c.node = c.node, nil
	if err := c.stream.Send(req); err != nil && !errors.Is(err, io.EOF) {
		c.t.Fatal(err)
	}
}

// ask subscribes; without names to everything, as Envoy does.
func (c *client) ask(t resource.Type, names ...string) {
	c.t.Helper()
	c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: t.URL(), ResourceNamesSubscribe: names})
}

func (c *client) drop(t resource.Type, names ...string) {
	c.t.Helper()
	c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: t.URL(), ResourceNamesUnsubscribe: names})
}

// ack takes the last response of a type.
func (c *client) ack(t resource.Type) {
	c.t.Helper()
	c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: t.URL(), ResponseNonce: c.nonce[t.URL()]})
}

// ownRow ends the name of the row that each table has, whoever is registered.
const ownRow = "/nobody.invalid"

// next waits for a response, which must be of the type, and does not acknowledge it.
func (c *client) next(t resource.Type) answer {
	c.t.Helper()
	select {
	case resp := <-c.got:
		if resp.GetTypeUrl() != t.URL() {
			c.t.Fatalf("a response of type %s, want %s", resp.GetTypeUrl(), t.URL())
		}
		c.nonce[t.URL()] = resp.GetNonce()
		return answered(resp)
	case err := <-c.failed:
		c.t.Fatalf("the stream ended: %v", err)
	case <-time.After(patience):
		c.t.Fatalf("no response of type %s", t.URL())
	}
	return answer{}
}

// take is next and ack, without the rows that tables always have; takeAll is with them.
func (c *client) take(t resource.Type) answer {
	c.t.Helper()
	a := c.takeAll(t)
	for name := range a.versions {
		if strings.HasSuffix(name, ownRow) {
			delete(a.versions, name)
		}
	}
	return a
}

func (c *client) takeAll(t resource.Type) answer {
	c.t.Helper()
	a := c.next(t)
	c.ack(t)
	return a
}

// quiet holds that nothing is on its way: what is asked for now is the next answer. The stream must not wait for an
// acknowledgement of endpoints.
func (c *client) quiet() {
	c.t.Helper()
	c.bars++
	name := "barrier-" + strings.Repeat("i", c.bars)
	c.ask(resource.Endpoints, name)
	if a := c.take(resource.Endpoints); !slices.Equal(a.removed, []string{name}) || len(a.names()) > 0 {
		c.t.Fatalf("something came that should not: %+v", a)
	}
}

// answer is a response, readable.
type answer struct {
	versions map[string]string
	sizes    map[string]int // in bytes
	values   map[string][]byte
	removed  []string
}

func answered(resp *discovery.DeltaDiscoveryResponse) answer {
	a := answer{versions: map[string]string{}, sizes: map[string]int{}, values: map[string][]byte{}, removed: resp.GetRemovedResources()}
	for _, r := range resp.GetResources() {
		a.versions[r.GetName()], a.sizes[r.GetName()], a.values[r.GetName()] = r.GetVersion(), len(r.GetResource().GetValue()), r.GetResource().GetValue()
	}
	return a
}

func (a answer) names() []string {
	out := make([]string, 0, len(a.versions))
	for n := range a.versions {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

func (a answer) has(name string) bool { return a.versions[name] != "" }

// entry registers a host; "direct" entries have endpoints of their own.
func entry(ns, name, host string, ports ...*networking.ServicePort) *config.Object {
	return &config.Object{
		Key: config.Key{Kind: config.KindServiceEntry, Namespace: ns, Name: name},
		Spec: &networking.ServiceEntry{
			Hosts: []string{host}, Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS, Ports: ports,
		},
	}
}

// fixed registers a host that leaves straight from the sidecar, to the addresses: its cluster has endpoints.
func fixed(ns, name, host string, addresses ...string) *config.Object {
	o := entry(ns, name, host, tlsPort)
	o.Annotations = map[string]string{registry.GatewayAnnotation: registry.ExitDirect}
	spec := o.Spec.(*networking.ServiceEntry)
	spec.Resolution = networking.ServiceEntry_STATIC
	for _, a := range addresses {
		spec.Endpoints = append(spec.Endpoints, &networking.WorkloadEntry{Address: a})
	}
	return o
}

var (
	httpPort = &networking.ServicePort{Number: 80, Name: "http", Protocol: "HTTP"}
	tlsPort  = &networking.ServicePort{Number: 443, Name: "tls", Protocol: "TLS"}
	oddPort  = &networking.ServicePort{Number: 8080, Name: "odd", Protocol: "HTTP"}
)

// gatewayPod is the default egress gateway with one pod at the address.
func gatewayPod(address string) []*config.Object {
	svc, pod := &corev1.Service{}, &corev1.Pod{}
	svc.Spec.Selector = map[string]string{"istio": "egressgateway"}
	svc.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443}}
	pod.Labels = svc.Spec.Selector
	pod.Status.PodIP = address
	return []*config.Object{
		{Key: config.Key{Kind: config.KindService, Namespace: "istio-system", Name: "istio-egressgateway"}, Spec: svc},
		{Key: config.Key{Kind: config.KindPod, Namespace: "istio-system", Name: "egress-1"}, Spec: pod, Labels: pod.Labels},
	}
}

// sidecarObject narrows what the workloads of a namespace see.
func sidecarObject(ns, name string, selector map[string]string, hosts ...string) *config.Object {
	spec := &networking.Sidecar{Egress: []*networking.IstioEgressListener{{Hosts: hosts}}}
	if selector != nil {
		spec.WorkloadSelector = &networking.WorkloadSelector{Labels: selector}
	}
	return &config.Object{Key: config.Key{Kind: config.KindSidecar, Namespace: ns, Name: name}, Spec: spec}
}

func withAccount(spec any, account string) any {
	pod := spec.(*corev1.Pod).DeepCopy()
	pod.Spec.ServiceAccountName = account
	return pod
}
