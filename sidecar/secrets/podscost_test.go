package secrets

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	meter "runtime/metrics"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	securityv1alpha1 "istio.io/api/security/v1alpha1"

	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/ca"
)

// BenchmarkPods is what an agent holds for each of 200 pods that have an account each, with Envoy's streams for their certificates: bytes that live, stacks, and goroutines. The
// client's end takes next to nothing.
func BenchmarkPods(b *testing.B) {
	const pods = 200
	for b.Loop() {
		m := newMesh(b)
		w := newWorkload(b, Options{Folder: filepath.Join(b.TempDir(), "state", "identity"), CARootFile: m.rootFile()})
		conn := serveCA(b, m.ca)
		all, envoy := NewPods(w, conn), dialSDS(b, serveSDS(b, w))
		if _, err := all.Keep(podIdentity(pods)); err != nil { // what there is but once
			b.Fatal(err)
		}
		envoy.ask(1, podIdentity(pods))
		envoy.answered(1)
		before := atRest()
		for i := range pods {
			ready, err := all.Keep(podIdentity(i))
			if err != nil {
				b.Fatal(err)
			}
			await(b, "a certificate", ready)
			envoy.ask(uint32(2*i+3), podIdentity(i))
			envoy.answered(1)
		}
		after := atRest()
		for i, unit := range []string{"heap-bytes/pod", "stack-bytes/pod", "goroutines/pod"} {
			b.ReportMetric((after[i]-before[i])/pods, unit)
		}
		began := allocated()
		for _, k := range all.kept {
			k.rereadRoots()
		}
		b.ReportMetric((allocated()-began)/(pods+1), "garbage-bytes/look")
		all.Close()
	}
}

func podIdentity(i int) string {
	return identity.ID{TrustDomain: "cluster.local", Namespace: fmt.Sprintf("namespace-%d", i), ServiceAccount: "app"}.String()
}

// atRest are the bytes of objects that live, those of stacks, and the goroutines, as an agent has them that has given back what was needed for a moment (package agent).
func atRest() [3]float64 {
	runtime.GC()
	runtime.GC()
	samples := []meter.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/sched/goroutines:goroutines"}}
	meter.Read(samples)
	return [3]float64{float64(samples[0].Value.Uint64()), float64(samples[1].Value.Uint64()), float64(samples[2].Value.Uint64())}
}

func allocated() float64 {
	samples := []meter.Sample{{Name: "/gc/heap/allocs:bytes"}}
	meter.Read(samples)
	return float64(samples[0].Value.Uint64())
}

// signing is a CA that certifies whatever identity is asked for.
type signing struct {
	securityv1alpha1.UnimplementedIstioCertificateServiceServer
	ca *ca.CA
}

func (s signing) CreateCertificate(_ context.Context, r *securityv1alpha1.IstioCertificateRequest) (*securityv1alpha1.IstioCertificateResponse, error) {
	id, err := identity.ParseID(r.GetMetadata().GetFields()[impersonated].GetStringValue())
	if err != nil {
		return nil, err
	}
	chain, err := s.ca.Sign([]byte(r.GetCsr()), id, time.Hour)
	return &securityv1alpha1.IstioCertificateResponse{CertChain: chain}, err
}

// serveCA is a connection to it.
func serveCA(t testing.TB, authority *ca.CA) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	securityv1alpha1.RegisterIstioCertificateServiceServer(server, signing{ca: authority})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// rawSDS is Envoy's end of many streams, by frames.
type rawSDS struct {
	t      testing.TB
	frames *http2.Framer
	heads  *hpack.Encoder
	block  []byte
}

func (r *rawSDS) Write(p []byte) (int, error) { r.block = append(r.block, p...); return len(p), nil }

func dialSDS(t testing.TB, path string) *rawSDS {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	r := &rawSDS{t: t, frames: http2.NewFramer(conn, conn)}
	r.heads = hpack.NewEncoder(r)
	if err := r.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := r.frames.WriteWindowUpdate(0, 1<<30); err != nil {
		t.Fatal(err)
	}
	return r
}

// ask opens a stream for a secret.
func (r *rawSDS) ask(stream uint32, name string) {
	r.t.Helper()
	r.block = nil
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets"}, {":authority", "agent"}, {"te", "trailers"}, {"content-type", "application/grpc"},
	} {
		if err := r.heads.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: r.block, EndHeaders: true}); err != nil {
		r.t.Fatal(err)
	}
	body, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: secretType, ResourceNamesSubscribe: []string{name}})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.frames.WriteData(stream, false, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)); err != nil {
		r.t.Fatal(err)
	}
}

// answered waits until so many messages have come.
func (r *rawSDS) answered(n int) {
	r.t.Helper()
	for n > 0 {
		frame, err := r.frames.ReadFrame()
		if err != nil {
			r.t.Fatal(err)
		}
		switch f := frame.(type) {
		case *http2.DataFrame:
			n--
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = r.frames.WritePing(true, f.Data)
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			r.t.Fatalf("%v", f)
		}
	}
}
