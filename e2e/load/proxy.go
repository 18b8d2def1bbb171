package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/xds/compress"
)

// proxy is one client: an Envoy and its agent, as a control plane sees them.
type proxy struct {
	fleet  *fleet
	node   *core.Node
	conn   *grpc.ClientConn
	stream grpc.ClientStream

	asked    map[string]map[string]bool // names, by type
	answered map[string]bool            // types that were answered
	synced   chan struct{}              // closed when every type was answered
	once     sync.Once

	bytes, messages atomic.Int64
	arrived         atomic.Int64 // when the host that the fleet waits for was last mentioned, in Unix nanoseconds
}

// sidecar is the node of the pod with that number. Its namespace is one of many, and it is no pod that the
// control plane knows.
func sidecar(i int) *core.Node {
	return node("sidecar", fmt.Sprintf("10.%d.%d.%d", 1+i/62500, i/250%250, 1+i%250), fmt.Sprintf("pod-%d", i),
		namespace(i), map[string]any{"LABELS": map[string]any{"app": appOf(i), "version": "v1"}, namesWaitKey: "true"})
}

// gateway is the node of the egress gateway's pod.
func gateway() *core.Node { return exit("istio-egressgateway-1", gatewayIP) }

func exit(pod, ip string) *core.Node {
	return node("router", ip, pod, gatewayNamespace,
		map[string]any{"LABELS": map[string]any{"istio": "egressgateway"}, onDemandKey: "true"})
}

func node(kind, ip, pod, ns string, more map[string]any) *core.Node {
	fields := map[string]any{
		"NAMESPACE": ns, "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.31.1", "NAME": pod, "SERVICE_ACCOUNT": "default", "INSTANCE_IPS": ip,
	}
	maps.Copy(fields, more)
	metadata, err := structpb.NewStruct(fields)
	if err != nil {
		panic(err) // all of it is text
	}
	return &core.Node{
		Id: fmt.Sprintf("%s~%s~%s.%s~%s.svc.cluster.local", kind, ip, pod, ns, ns), Cluster: pod + "." + ns, Metadata: metadata,
		UserAgentName: "envoy",
	}
}

// connect opens a proxy's stream and asks the first questions. It ends with ctx.
func (f *fleet) connect(ctx context.Context, addr string, n *core.Node) (*proxy, error) {
	conn, err := grpc.NewClient("passthrough:"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newWireCodec()), grpc.MaxCallRecvMsgSize(maxMessage)),
		// Envoy's own windows; without them this library would ping the server about its bandwidth.
		grpc.WithInitialWindowSize(1<<20), grpc.WithInitialConnWindowSize(1<<20))
	if err != nil {
		return nil, err
	}
	p := &proxy{
		fleet: f, node: n, conn: conn, asked: map[string]map[string]bool{}, answered: map[string]bool{},
		synced: make(chan struct{}),
	}
	if !f.plain {
		ctx = compress.Want(ctx)
	}
	p.stream, err = conn.NewStream(ctx, &grpc.StreamDesc{StreamName: "DeltaAggregatedResources", ServerStreams: true, ClientStreams: true},
		"/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources")
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	types := []string{clusterType, nameType}
	if p.exit() {
		types[1] = onDemandType
	}
	if p.byName() {
		types = append(types, digestType)
	}
	if p.finds() {
		types = append(types, serverNameType)
	}
	for _, t := range types {
		err = errors.Join(err, p.subscribe(t))
	}
	return p, err
}

// run reads responses until the stream ends.
func (p *proxy) run() error {
	defer func() { _ = p.conn.Close() }()
	for {
		r := &response{}
		if err := p.stream.RecvMsg(r); err != nil {
			return err
		}
		p.note(r)
		ack := &discovery.DeltaDiscoveryRequest{TypeUrl: r.typeURL, ResponseNonce: r.nonce}
		if err := p.stream.SendMsg(ack); err != nil {
			return err
		}
		if err := p.follow(r); err != nil {
			return err
		}
	}
}

func (p *proxy) note(r *response) {
	p.bytes.Add(int64(r.size))
	p.messages.Add(1)
	p.fleet.messages.Add(1)
	if host := p.fleet.awaited.Load(); host != nil && r.mentions(*host) {
		p.arrived.Store(time.Now().UnixNano())
	}
}

// follow asks for what a response refers to, in Envoy's order: endpoints of clusters, then listeners, then their
// routes, and an egress gateway's policies, then the hosts in these.
func (p *proxy) follow(r *response) error {
	first := !p.answered[r.typeURL]
	p.answered[r.typeURL] = true
	named := func(wanted string) (names []string) {
		for _, res := range r.resources {
			names = append(names, p.fleet.references.of(wanted, res)...)
		}
		return names
	}
	var err error
	switch r.typeURL {
	case clusterType:
		err = p.subscribe(endpointsType, named(endpointsType)...)
		if first && err == nil {
			err = p.subscribe(listenerType)
		}
	case listenerType:
		err = p.subscribe(routeType, named(routeType)...)
		if (p.exit() || p.fleet.policed) && err == nil {
			err = p.subscribe(extensionType, named(extensionType)...)
		}
		if first && err == nil {
			var rows []string
			if p.byName() {
				rows = usedRows()
			}
			err = p.subscribe(virtualHostType, rows...)
		}
	}
	if p.complete() {
		p.once.Do(func() { close(p.synced) })
	}
	return err
}

// subscribe asks for a type's resources: those named that were not asked for before, or, without a name, all.
func (p *proxy) subscribe(typeURL string, names ...string) error {
	known, again := p.asked[typeURL]
	if known == nil {
		known = map[string]bool{}
	}
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return known[n] })
	slices.Sort(names)
	names = slices.Compact(names)
	named := typeURL == endpointsType || typeURL == routeType || typeURL == extensionType
	if (named || again) && len(names) == 0 {
		return nil
	}
	for _, n := range names {
		known[n] = true
	}
	req := &discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names}
	if len(p.asked) == 0 {
		req.Node = p.node // Envoy says who it is once a stream
	}
	p.asked[typeURL] = known
	return p.stream.SendMsg(req)
}

// byName says whether it asks for rows by name.
func (p *proxy) byName() bool { return p.node.GetMetadata().GetFields()[byNameKey] != nil }

// finds says whether it finds certificates by the names that clients say.
func (p *proxy) finds() bool {
	return p.node.GetMetadata().GetFields()[certificatesKey] != nil
}

// exit says whether it is an egress gateway's pod.
func (p *proxy) exit() bool { return p.node.GetMetadata().GetFields()[onDemandKey] != nil }

// complete says whether every type was answered that was asked for, the last ones included.
func (p *proxy) complete() bool {
	return p.asked[virtualHostType] != nil &&
		!slices.ContainsFunc(slices.Collect(maps.Keys(p.asked)), func(t string) bool { return !p.answered[t] })
}
