package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/sidecar/tunnels"
	"github.com/sallyport/sallyport/xds/wire"
)

// A request is told of, goes on, and is ended when the table denies it, on its own stream; what cannot be asked about does not go on.
func TestRequestsUnderWay(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	table := tunnels.New(tunnels.Config{Log: slog.New(slog.DiscardHandler), MostRequests: 10, Ask: func(_ context.Context, q envoylog.Question) (envoylog.Answer, error) {
		return envoylog.Answer{Denied: q.Path == "/denied", Why: "denied by EgressPolicy a/b, rule c"}, nil
	}})
	ran := make(chan struct{})
	go func() { table.Run(ctx); close(ran) }()
	l := bufconn.Listen(1 << 16)
	server := newServer()
	extprocv3.RegisterExternalProcessorServer(server, &requests{open: table, read: toldAtExit})
	go func() { _ = server.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); server.Stop(); stop(); <-ran })

	tellAs := func(what string) extprocv3.ExternalProcessor_ProcessClient {
		t.Helper()
		as := ctx
		if what != "" {
			as = metadata.AppendToOutgoingContext(as, wire.HeaderUnderWay, what)
		}
		as = metadata.AppendToOutgoingContext(as, wire.HeaderPeer, "spiffe://cluster.local/ns/shop/sa/app",
			wire.HeaderFrom, "10.0.0.7", wire.HeaderBegan, "1795674897.000000001")
		s, err := extprocv3.NewExternalProcessorClient(conn).Process(as)
		if err == nil {
			err = s.Send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{}}})
		}
		if err != nil && !errors.Is(err, io.EOF) { // it may have been answered before anything was said
			t.Fatal(err)
		}
		return s
	}
	tell := func(path string) extprocv3.ExternalProcessor_ProcessClient { return tellAs("GET - a.test " + path) }
	hear := func(s extprocv3.ExternalProcessor_ProcessClient) *extprocv3.ProcessingResponse {
		t.Helper()
		m, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	denied, stays := tell("/denied"), tell("/stays")
	for _, s := range []extprocv3.ExternalProcessor_ProcessClient{denied, stays} {
		if m := hear(s); m.GetResponseHeaders() == nil {
			t.Errorf("it goes on by %v", m)
		}
	}
	table.Changed(tunnels.Change{Type: "type.googleapis.com/envoy.config.listener.v3.Listener", Names: []string{"all"}})
	end := hear(denied).GetImmediateResponse()
	why, is := strings.CutPrefix(end.GetDetails(), wire.EndedDetails)
	if plain, _ := url.QueryUnescape(why); !is || plain != "denied by EgressPolicy a/b, rule c" || end.GetStatus().GetCode() != 403 || strings.Contains(why, " ") {
		t.Errorf("it is ended by %v", end)
	}
	if err := stays.Send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extprocv3.HttpTrailers{}}}); err != nil {
		t.Fatal(err)
	}
	if m := hear(stays); m.GetResponseTrailers() == nil {
		t.Errorf("it ends by %v", m)
	}
	for _, s := range []extprocv3.ExternalProcessor_ProcessClient{denied, stays} {
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Recv(); err == nil {
			t.Errorf("there is more: %v", m)
		}
	}
	if end := hear(tell("no path")).GetImmediateResponse(); end.GetDetails() != wire.TooManyDetails || end.GetStatus().GetCode() != 503 {
		t.Errorf("it is answered %v", end)
	}
	if end := hear(tellAs("CONNECT - a.test:80 -#-")).GetImmediateResponse(); end.GetDetails() != wire.NoTunnelDetails || end.GetStatus().GetCode() != 403 || !strings.Contains(string(end.GetBody()), "CONNECT") {
		t.Errorf("a CONNECT for which there is nothing is answered %v", end)
	}
	for _, as := range []string{"-", ""} {
		before := tellAs(as)
		if m := hear(before); m.GetResponseHeaders() == nil {
			t.Errorf("what a filter before has answered ends by %v", m)
		}
		if err := before.CloseSend(); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); table.Stats().Open > 0; { // the server ends a stream after its client
		if time.Now().After(deadline) {
			t.Fatalf("%+v", table.Stats())
		}
		time.Sleep(time.Millisecond)
	}
}
