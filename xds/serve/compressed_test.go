package serve_test

import (
	"context"
	"fmt"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/xds/compress"
	"github.com/sallyport/sallyport/xds/resource"
)

// wire counts the bytes of messages that come over a connection.
type wire struct{ bytes int }

func (w *wire) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (w *wire) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (w *wire) HandleConn(context.Context, stats.ConnStats)                       {}
func (w *wire) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InPayload); ok {
		w.bytes += in.CompressedLength
	}
}

// older is an agent that reads compressed answers, and makes no versions itself.
func older() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(compress.Codec(encoding.GetCodecV2("proto"), 64<<20))),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return streamer(metadata.AppendToOutgoingContext(ctx, "sallyport-compressed", "zstd"), desc, conn, method, opts...)
		}),
	}
}

// TestVersions holds that versions are left out for those who make them themselves, and for nobody else.
func TestVersions(t *testing.T) {
	var hosts []string
	for i := range 500 {
		hosts = append(hosts, fmt.Sprintf("api.service-%d.example.com", i))
	}
	p := startPlane(t, hosts...)
	var with, without wire
	old, now := p.join(pod("old", "any"), append(older(), grpc.WithStatsHandler(&with))...), p.join(pod("now", "any"), append(compress.Client(64<<20), grpc.WithStatsHandler(&without))...)
	for _, what := range []resource.Type{resource.VirtualHost, resource.Name} {
		with.bytes, without.bytes = 0, 0
		old.ask(what)
		now.ask(what)
		a, b := old.take(), now.take()
		if a.Nonce, b.Nonce = "", ""; !proto.Equal(a, b) {
			t.Errorf("%s: another answer", what.URL())
		}
		if saved := with.bytes - without.bytes; saved < 7*len(a.GetResources()) {
			t.Errorf("%s: %d bytes without versions, %d with those of %d resources", what.URL(), without.bytes, with.bytes, len(a.GetResources()))
		}
	}
}

// TestCompressed holds that who reads compressed answers gets what others get, in a fraction of the bytes: the first time, and when something
// changes; also as a namespace for which some of it differs.
func TestCompressed(t *testing.T) {
	var hosts []string
	for i := range 500 {
		hosts = append(hosts, fmt.Sprintf("api.service-%d.example.com", i))
	}
	p := startPlane(t, hosts...)
	p.publish(p.entry("own.example.com", "own"))
	for _, ns := range []string{"any", "own"} {
		t.Run(ns, func(t *testing.T) {
			var came wire
			plain, c := p.join(pod("plain", ns)), p.join(pod("compressed", ns), append(compress.Client(64<<20), grpc.WithStatsHandler(&came))...)
			for _, what := range []resource.Type{resource.Cluster, resource.VirtualHost, resource.Name} {
				came.bytes = 0
				plain.ask(what)
				c.ask(what)
				sameAnswer(t, plain.take(), c.take(), &came, 8)
			}
			p.publish(p.entry("own.example.com", ns), p.entry(hosts[7], "*"))
			for range 2 {
				came.bytes = 0
				sameAnswer(t, plain.take(), c.take(), &came, 1)
			}
		})
	}
}

func sameAnswer(t *testing.T, want, got *discovery.DeltaDiscoveryResponse, came *wire, smaller int) {
	t.Helper()
	want.Nonce, got.Nonce = "", ""
	if !proto.Equal(got, want) {
		t.Fatalf("%s: another answer: %d resources, not %d", want.GetTypeUrl(), len(got.GetResources()), len(want.GetResources()))
	}
	size := proto.Size(want)
	t.Logf("%s: %d resources, %d of %d bytes", want.GetTypeUrl(), len(want.GetResources()), came.bytes, size)
	if size > 10_000 && came.bytes*smaller > size || came.bytes > size+8 {
		t.Errorf("%s: %d bytes for %d", want.GetTypeUrl(), came.bytes, size)
	}
}
