package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/compress"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// line is the connection of a stream, of which a test says when something is read and written.
type line struct {
	grpc.ServerStream
	ctx      context.Context
	requests chan *discovery.DeltaDiscoveryRequest
	room     chan error // for one answer each: what becomes of it
	written  []*deltaResponse
	hearing  []string // which goroutines waited for a request
	sending  []string // and which sent an answer
}

func (l *line) Context() context.Context                        { return l.ctx }
func (l *line) Recv() (*discovery.DeltaDiscoveryRequest, error) { panic("not called") }
func (l *line) Send(*discovery.DeltaDiscoveryResponse) error    { panic("not called") }
func (l *line) ask(t resource.Type, nonce string, names ...string) {
	l.requests <- request(t, nonce, names...)
}
func request(t resource.Type, nonce string, names ...string) *discovery.DeltaDiscoveryRequest {
	return &discovery.DeltaDiscoveryRequest{
		Node: &core.Node{Id: "sidecar~10.1.2.3~pod.ns~ns.svc.cluster.local"}, TypeUrl: t.URL(), ResponseNonce: nonce, ResourceNamesSubscribe: names,
	}
}

func (l *line) RecvMsg(to any) error {
	l.hearing = append(l.hearing, goroutine())
	select {
	case req := <-l.requests:
		proto.Merge(to.(proto.Message), req)
		return nil
	case <-l.ctx.Done():
		return io.EOF
	}
}

func (l *line) SendMsg(m any) error {
	select {
	case err := <-l.room:
		if err == nil {
			l.written, l.sending = append(l.written, m.(*deltaResponse)), append(l.sending, goroutine())
		}
		return err
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

// goroutine says which one calls it.
func goroutine() string {
	var b [64]byte
	name, _, _ := strings.Cut(string(b[:runtime.Stack(b[:], false)]), " [")
	return name
}

// served is a stream that is being served, and how that ended.
func served(t *testing.T) (l *line, s *Server, stop func(), result chan error) {
	t.Helper()
	cfg := mesh.Default()
	s = NewServer(NewCache(registry.New(&cfg).Snapshot()), func(_ context.Context, n translate.Node) (translate.Node, error) { return n, nil },
		NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	s.ended = ctx.Done()
	streamCtx, end := context.WithCancel(t.Context())
	l = &line{ctx: streamCtx, requests: make(chan *discovery.DeltaDiscoveryRequest), room: make(chan error)}
	result = make(chan error, 1)
	go func() {
		result <- s.serveDelta(l, "")
		end() // as gRPC does
	}()
	return l, s, stop, result
}

// TestUnheard: a client that reads nothing is not heard, so that nothing gathers for it, and nobody waits for it; when it reads, all comes in order.
func TestUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, stop, result := served(t)
		const asked = 100
		sent := 0
		go func() {
			for i := range asked {
				l.ask(resource.Endpoints, "", fmt.Sprintf("outbound|443||%d.test", i))
				sent++
			}
		}()
		synctest.Wait()
		if sent > 2 {
			t.Errorf("%d requests were taken of a client that reads nothing", sent)
		}
		s.cache.Publish(s.cache.snapshot, registry.Changed{Mesh: true}) // does not wait
		for range asked {
			l.room <- nil
		}
		synctest.Wait()
		for i, r := range l.written {
			if want := fmt.Sprintf("outbound|443||%d.test", i); !slices.Contains(r.removed, want) || r.nonce != fmt.Sprint(i+1) {
				t.Fatalf("answer %d is %s about %v, want one about %s", i+1, r.nonce, r.removed, want)
			}
		}
		if sent != asked || len(l.written) != asked {
			t.Errorf("%d of %d requests were taken, and %d answers came", sent, asked, len(l.written))
		}
		stop()
		if err := <-result; err != nil {
			t.Errorf("the server ended the stream: %v", err)
		}
		if left := s.cache.Connected(); len(left) > 0 {
			t.Errorf("%v is still there", left)
		}
	})
}

// TestWhoDidMuchDoesNotWait: no goroutine waits for the client, or for the stream's end, that has answered something: its stack would stay as it has grown.
func TestWhoDidMuchDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, stop, result := served(t)
		l.ask(resource.Endpoints, "", "a")
		l.room <- nil
		l.ask(resource.Endpoints, "1")
		l.requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: resource.Endpoints.URL(), ResponseNonce: "1"}
		synctest.Wait()
		for _, st := range s.cache.streams {
			st.deliver(&deltaResponse{t: resource.Cluster})
		}
		l.room <- nil
		synctest.Wait()
		if h := l.hearing; len(h) != 4 || h[1] == h[0] || h[3] != h[2] {
			t.Errorf("%v waited for a request, one after the other; want another one behind an answer, and the same one behind what only acknowledges", h)
		}
		if len(l.sending) != 2 || l.sending[0] != l.hearing[0] || slices.Contains(l.hearing, l.sending[1]) {
			t.Errorf("%v sent answers, and %v waited for requests; want the first one to be sent by who heard, the second by nobody of them", l.sending, l.hearing)
		}
		stop()
		if err := <-result; err != nil {
			t.Errorf("the server ended the stream: %v", err)
		}
	})
}

// TestStreamEnds: a stream ends with the server, with its client, and with what cannot be sent, whoever waits for what; and is forgotten.
func TestStreamEnds(t *testing.T) {
	broken := errors.New("broken")
	for what, c := range map[string]struct {
		end  func(l *line, stop func())
		want error
	}{
		"with the server, while a client is silent":        {func(_ *line, stop func()) { stop() }, nil},
		"with the server, while a client reads nothing":    {func(l *line, stop func()) { l.ask(resource.Endpoints, "", "a"); synctest.Wait(); stop() }, nil},
		"with an answer that cannot be sent":               {func(l *line, _ func()) { l.ask(resource.Endpoints, "", "a"); l.room <- broken }, broken},
		"with what comes by itself and cannot be sent":     {nil, broken},
		"with a request that is none":                      {func(l *line, _ func()) { l.requests <- &discovery.DeltaDiscoveryRequest{} }, status.Error(codes.InvalidArgument, "xds: a request on an aggregated stream must say its type")},
		"with one who is somebody else's, before anything": {nil, status.Error(codes.InvalidArgument, "xds: the first request must carry the node")},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s, stop, result := served(t)
				defer stop()
				switch {
				case strings.HasSuffix(what, "before anything"):
					l.requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: resource.Name.URL()}
				default:
					l.ask(resource.Cluster, "")
					l.room <- nil
					synctest.Wait()
					if len(s.cache.streams) != 1 {
						t.Fatalf("%d streams are there", len(s.cache.streams))
					}
					if c.end != nil {
						c.end(l, stop)
						break
					}
					for _, st := range s.cache.streams {
						st.deliver(&deltaResponse{t: resource.Cluster})
					}
					l.room <- broken
				}
				if err := <-result; !errors.Is(err, c.want) && err.Error() != c.want.Error() {
					t.Errorf("it ended with %v, want %v", err, c.want)
				}
				synctest.Wait()
				if len(s.cache.streams) > 0 {
					t.Error("it is still there")
				}
			})
		})
	}
}

// TestMessages holds that what goes over the wire is one message, whatever of it is compressed.
func TestMessages(t *testing.T) {
	row := func(name string, size int) *resource.Resource {
		return resource.SealBytes(resource.VirtualHost, name, []byte(strings.Repeat("x", size)))
	}
	codec := compress.Codec(encoding.GetCodecV2("proto"), 1<<20)
	long := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("443/%d.example.test", i))
		}
		return names
	}
	for _, form := range []compress.Form{compress.None, compress.Whole, compress.Bare} {
		for _, resources := range [][]*resource.Resource{nil, {row("a", 1)}, {row("a", 500), row("b", 1000)}} {
			for _, removed := range [][]string{nil, long(1), long(7), long(9), long(5000)} {
				r := &deltaResponse{t: resource.VirtualHost, removed: removed, nonce: "17", form: form}
				want := &discovery.DeltaDiscoveryResponse{TypeUrl: resource.VirtualHost.URL(), Nonce: "17", RemovedResources: removed}
				if resources != nil {
					r.payload = pack(resources)
					want.SystemVersionInfo = r.payload.version
				}
				got := &discovery.DeltaDiscoveryResponse{}
				if err := codec.Unmarshal(r.message(), got); err != nil {
					t.Fatalf("form %d, %d resources, %d removed: %v", form, len(resources), len(removed), err)
				}
				if len(got.GetResources()) != len(resources) {
					t.Errorf("form %d: %d resources, not %d", form, len(got.GetResources()), len(resources))
				}
				for i, one := range got.GetResources() {
					if one.GetName() != resources[i].Name || one.GetVersion() != resources[i].Version {
						t.Errorf("form %d: %s %s, not %s %s", form, one.GetName(), one.GetVersion(), resources[i].Name, resources[i].Version)
					}
				}
				if got.Resources = nil; !proto.Equal(got, want) {
					t.Errorf("form %d, %d resources: %v, want %v", form, len(resources), got, want)
				}
			}
		}
	}
}
