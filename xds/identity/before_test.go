package identity

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// checks is a service with a unary method.
type checks struct {
	healthpb.UnimplementedHealthServer
	called atomic.Int32
}

func (c *checks) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	c.called.Add(1)
	if id, _ := FromContext(ctx); id != alice || len(r.Service) == 0 {
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}

// byToken knows alice's.
type byToken struct{}

func (byToken) Authenticate(ctx context.Context) (ID, error) {
	token, err := BearerToken(ctx)
	switch {
	case err != nil:
		return ID{}, err
	case token != "alice's":
		return ID{}, refused
	}
	return alice, nil
}

// guarded serves checks behind a Guard.
func guarded(t *testing.T) (address string, service *checks) {
	t.Helper()
	g := NewGuard(byToken{}, slog.New(slog.DiscardHandler), nil)
	server := grpc.NewServer(grpc.UnaryInterceptor(g.Unary), grpc.StreamInterceptor(g.Stream), grpc.MaxRecvMsgSize(16<<20))
	service = &checks{}
	healthpb.RegisterHealthServer(Before(server), service)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), service
}

// unfinished begins a call whose message of nearly 16 MiB lacks nearly everything, and tells what the server says to that: the fields of its head or trailer.
func unfinished(t *testing.T, address, token string) map[string]string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	var head strings.Builder
	enc := hpack.NewEncoder(&head)
	fields := [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/grpc.health.v1.Health/Check"}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	}
	if token != "" {
		fields = append(fields, [2]string{"authorization", "Bearer " + token})
	}
	for _, h := range fields {
		_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(head.String()), EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteData(1, false, append(binary.BigEndian.AppendUint32([]byte{0}, 16<<20-1), 'x')); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatalf("token %q: %v", token, err)
		}
		switch frame := frame.(type) {
		case *http2.WindowUpdateFrame:
			if frame.StreamID == 1 {
				t.Errorf("token %q: the server wants %d bytes more of a stranger", token, frame.Increment)
				return nil
			}
		case *http2.MetaHeadersFrame:
			got := map[string]string{}
			for _, h := range frame.Fields {
				got[h.Name] = h.Value
			}
			return got
		}
	}
}

// TestStrangersMessagesAreNotRead: who is nobody hears so before a message is read, however much of it is to come.
func TestStrangersMessagesAreNotRead(t *testing.T) {
	address, service := guarded(t)
	for _, token := range []string{"", "made up"} {
		if got := unfinished(t, address, token); got["grpc-status"] != "16" {
			t.Errorf("token %q: %v", token, got)
		}
	}
	if n := service.called.Load(); n != 0 {
		t.Errorf("%d calls came through", n)
	}
}

// TestUnaryOnAStream: clients call unary methods as ever.
func TestUnaryOnAStream(t *testing.T) {
	address, _ := guarded(t)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer alice's")
	got, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: strings.Repeat("s", 1<<20)})
	if err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", got, err)
	}
	watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err == nil || !strings.Contains(err.Error(), "Unimplemented") {
		t.Errorf("a stream of the service: %v", err)
	}
}

// TestMessageWithin: what does not come in time is not waited for.
func TestMessageWithin(t *testing.T) {
	never := make(chan struct{})
	err := within(t.Context(), time.Millisecond, func() error { <-never; return nil })
	close(never)
	if err == nil || !strings.Contains(err.Error(), "DeadlineExceeded") {
		t.Error(err)
	}
	if err := within(t.Context(), time.Minute, func() error { return io.EOF }); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
