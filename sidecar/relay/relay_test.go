package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

type (
	deltaServer = grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
	deltaClient = grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
)

// script is a controller whose every stream a test plays itself.
type script struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	streams chan deltaServer
	release chan struct{}
}

func (s *script) DeltaAggregatedResources(stream deltaServer) error {
	select {
	case s.streams <- stream:
	case <-stream.Context().Done():
		return nil
	}
	select {
	case <-s.release:
		return status.Error(codes.Unavailable, "ends")
	case <-stream.Context().Done():
		return nil
	}
}

// dialed serves over memory and gives a client of what was registered.
func dialed(t *testing.T, register func(grpc.ServiceRegistrar)) discoveryv3.AggregatedDiscoveryServiceClient {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage))
	register(server)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-served
	})
	return discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
}

// between is a relay with a scripted controller on one side and the test as Envoy on the other.
type between struct {
	t      *testing.T
	script *script
	relay  *Relay
	envoys discoveryv3.AggregatedDiscoveryServiceClient
}

func newBetween(t *testing.T) *between {
	t.Helper()
	b := &between{t: t, script: &script{streams: make(chan deltaServer), release: make(chan struct{})}}
	controller := dialed(t, func(s grpc.ServiceRegistrar) { discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, b.script) })
	var err error
	b.relay, err = New(Config{
		Log: slog.New(slog.DiscardHandler), Node: &corev3.Node{Id: "agent"}, Controller: controller, StateDir: t.TempDir(),
		Backoff: Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.relay.Run(ctx) }()
	b.envoys = dialed(t, b.relay.Register)
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *between) envoy() deltaClient {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(cancel)
	stream, err := b.envoys.DeltaAggregatedResources(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return stream
}

func send[T any](t *testing.T, stream interface{ Send(*T) error }, message *T) {
	t.Helper()
	if err := stream.Send(message); err != nil {
		t.Fatal(err)
	}
}

func receive[T any](t *testing.T, stream interface{ Recv() (*T, error) }) *T {
	t.Helper()
	message, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return message
}

func TestStreams(t *testing.T) {
	b := newBetween(t)
	envoy := b.envoy()
	node := &corev3.Node{Id: "envoy", Extensions: []*corev3.Extension{{Name: "many"}}}
	send(t, envoy, &discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: ClusterType})
	controller := <-b.script.streams
	req := receive(t, controller)
	if req.GetNode().GetId() != "envoy" || len(req.GetNode().GetExtensions()) != 0 || req.GetTypeUrl() != ClusterType {
		t.Errorf("the controller was asked %v", req)
	}
	send(t, controller, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "n1", Resources: []*discoveryv3.Resource{res("a", "1")}})
	response := receive(t, envoy)
	if short(response) != "+a@1" {
		t.Errorf("Envoy was sent %s", short(response))
	}
	send(t, envoy, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: ClusterType, ResponseNonce: response.GetNonce()})
	if ack := receive(t, controller); ack.GetResponseNonce() != "n1" || ack.GetErrorDetail() != nil {
		t.Errorf("the controller was told %v", ack)
	}

	// The controller's stream ends; the next one hears what is held.
	b.script.release <- struct{}{}
	controller = <-b.script.streams
	if req := receive(t, controller); req.GetInitialResourceVersions()["a"] != "1" || req.GetNode().GetId() != "envoy" {
		t.Errorf("the controller was asked %v", req)
	}

	// Another Envoy replaces the first: the controller's stream begins anew with its subscriptions.
	second := b.envoy()
	send(t, second, &discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: "second"}, TypeUrl: ClusterType})
	if _, err := envoy.Recv(); status.Code(err) != codes.Aborted {
		t.Errorf("the first Envoy hears %v", err)
	}
	controller = <-b.script.streams
	if req := receive(t, controller); req.GetInitialResourceVersions()["a"] != "1" || req.GetNode().GetId() != "second" {
		t.Errorf("the controller was asked %v", req)
	}
	if response := receive(t, second); short(response) != "+a@1" { // at once: the first one had everything
		t.Errorf("the second Envoy was sent %q", short(response))
	}
	send(t, controller, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "m1", Resources: []*discoveryv3.Resource{res("b", "1")}})
	if response := receive(t, second); short(response) != "+b@1" {
		t.Errorf("the second Envoy was sent %q", short(response))
	}
	state, err := b.relay.Status(context.Background(), true)
	if err != nil || !state.Connected || !state.Envoy || state.Streams != 3 || state.Types[0].Versions["a"] != "1" {
		t.Errorf("status %+v, %v", state, err)
	}
}

// A controller that answers everything at once must not make the relay hold more than a bounded part of it.
func TestSlowEnvoyHoldsTheControllerBack(t *testing.T) {
	b := newBetween(t)
	envoy := b.envoy()
	send(t, envoy, &discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: "envoy"}, TypeUrl: ClusterType})
	controller := <-b.script.streams
	receive(t, controller)
	const responses, each = 24, 4 << 20
	sent := make(chan error, 1)
	go func() {
		for i := range responses {
			big := res(fmt.Sprint("r", i), "1")
			big.Resource.Value = make([]byte, each)
			if err := controller.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: fmt.Sprint(i), Resources: []*discoveryv3.Resource{big}}); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	go func() { // ACKs must not wait for the controller to read
		for {
			if _, err := controller.Recv(); err != nil {
				return
			}
		}
	}()
	for range responses {
		response := receive(t, envoy)
		var flying int
		if err := b.relay.call(context.Background(), func() { flying = b.relay.machine.flying }); err != nil {
			t.Fatal(err)
		}
		if flying > maxFlying+each+1000 {
			t.Fatalf("%d bytes are on their way", flying)
		}
		send(t, envoy, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: ClusterType, ResponseNonce: response.GetNonce()})
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

func TestManyResourcesInOneMessage(t *testing.T) {
	b := newBetween(t)
	envoy := b.envoy()
	send(t, envoy, &discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: "envoy"}, TypeUrl: VirtualHost})
	controller := <-b.script.streams
	receive(t, controller)
	all := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: VirtualHost, Nonce: "n"}
	for i := range 10_000 {
		r := res(fmt.Sprintf("443/host-%d.example.com", i), "1")
		r.Resource.Value = []byte(strings.Repeat("x", 2000))
		all.Resources = append(all.Resources, r)
	}
	send(t, controller, all)
	response := receive(t, envoy)
	if len(response.GetResources()) != 10_000 {
		t.Fatalf("%d resources", len(response.GetResources()))
	}
	send(t, envoy, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: VirtualHost, ResponseNonce: response.GetNonce()})
	if ack := receive(t, controller); ack.GetResponseNonce() != "n" {
		t.Errorf("the controller was told %v", ack)
	}
}

func TestStateOfTheWorldIsRefused(t *testing.T) {
	b := newBetween(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := b.envoys.StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "DELTA_GRPC") || errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}

func TestBackoff(t *testing.T) {
	b := Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	for _, most := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		most *= time.Millisecond
		if wait := b.next(); wait < most/2 || wait > most {
			t.Errorf("waits %s, want %s to %s", wait, most/2, most)
		}
	}
	b.reset()
	if wait := b.next(); wait > 100*time.Millisecond {
		t.Errorf("waits %s after a reset", wait)
	}
}
