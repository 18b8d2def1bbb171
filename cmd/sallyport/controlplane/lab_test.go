package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/token"
	"github.com/sallyport/sallyport/xds/resource"
)

func TestMain(m *testing.M) {
	leaks.Verify(m, goleak.IgnoreTopFunction("github.com/sallyport/sallyport/e2e/world.startForever"))
}

// soon bounds every wait.
const soon = 2 * time.Minute

// fed is a source that gives what a test sends it.
type fed struct {
	steps chan batch
	fails chan error
	found atomic.Pointer[[]admission.Finding]
}

// batch is one step of it.
type batch struct {
	changes  []config.Change
	findings []admission.Finding
}

func (f *fed) Findings() []admission.Finding {
	if found := f.found.Load(); found != nil {
		return *found
	}
	return nil
}

func (f *fed) Run(ctx context.Context, out func([]config.Change, []admission.Finding)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-f.fails:
			return err
		case b := <-f.steps:
			f.found.Store(&b.findings)
			out(b.changes, b.findings)
		}
	}
}

// lab is a running control plane on loopback.
type lab struct {
	*testing.T
	source   *fed
	data     string
	meshFile string
	at       Addresses
	ended    chan error
	stop     context.CancelFunc
}

// begin runs a control plane; the mesh settings are as given.
func begin(t *testing.T, settings string) *lab {
	t.Helper()
	l := &lab{
		T: t, source: &fed{steps: make(chan batch), fails: make(chan error)}, data: t.TempDir(), ended: make(chan error, 1),
	}
	l.meshFile = filepath.Join(t.TempDir(), "mesh.yaml")
	l.write(l.meshFile, settings)
	listening := make(chan Addresses, 1)
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	go func() {
		l.ended <- Run(ctx, Config{
			Source: l.source, MeshConfigFile: l.meshFile, DataDir: l.data, CertTTL: time.Hour,
			XDSAddr: "127.0.0.1:0", SecureAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0",
			Log: slog.New(slog.DiscardHandler), Listening: func(a Addresses) { listening <- a },
		})
	}()
	t.Cleanup(func() {
		stop()
		http.DefaultClient.CloseIdleConnections()
	})
	select {
	case l.at = <-listening:
	case err := <-l.ended:
		t.Fatal(err)
	case <-time.After(soon):
		t.Fatal("it does not listen")
	}
	return l
}

func (l *lab) write(file, content string) {
	l.Helper()
	if err := os.WriteFile(file+".next", []byte(content), 0o600); err != nil {
		l.Fatal(err)
	}
	if err := os.Rename(file+".next", file); err != nil {
		l.Fatal(err)
	}
}

// over waits for the end.
func (l *lab) over() error {
	l.Helper()
	select {
	case err := <-l.ended:
		return err
	case <-time.After(soon):
		l.Fatal("it goes on")
		return nil
	}
}

// feed gives a step of the source, and does not return before it is taken.
func (l *lab) feed(yaml string) {
	l.Helper()
	result := decode.File("fed.yaml", []byte(yaml))
	var changes []config.Change
	for i := range result.Objects {
		changes = append(changes, config.Change{Key: result.Objects[i].Key, Object: &result.Objects[i]})
	}
	select {
	case l.source.steps <- batch{changes, result.Findings}:
	case <-time.After(soon):
		l.Fatal("the source is not asked")
	}
}

// get asks the admin port.
func (l *lab) get(path string) (int, string) {
	l.Helper()
	resp, err := http.Get("http://" + l.at.Admin + path)
	if err != nil {
		l.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		l.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (l *lab) becomes(what string, is func() bool) {
	l.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(soon)
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			l.Fatalf("never: %s", what)
		}
	}
}

// dump is what a proxy is programmed with, of one short type.
func (l *lab) dump(proxy, kind string) map[string]json.RawMessage {
	l.Helper()
	status, body := l.get("/debug/xds?proxy=" + proxy)
	if status != http.StatusOK {
		return nil
	}
	var all map[string]map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		l.Fatalf("%v: %s", err, body)
	}
	return all[kind]
}

const proxy = "sidecar~10.0.0.1~app.default~default.svc.cluster.local"

// plain connects to the debugging port.
func (l *lab) plain() *grpc.ClientConn { return l.dial(l.at.XDS, insecure.NewCredentials()) }

// secure connects to the agents' port, knowing the CA.
func (l *lab) secure() *grpc.ClientConn {
	l.Helper()
	pem, err := os.ReadFile(filepath.Join(l.data, ca.BundleFile))
	if err != nil {
		l.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return l.dial(l.at.Secure, credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}))
}

func (l *lab) dial(addr string, c credentials.TransportCredentials) *grpc.ClientConn {
	l.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(c))
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = conn.Close() })
	return conn
}

// as gives calls an account's token.
func (l *lab) as(ctx context.Context, ns, account string) context.Context {
	l.Helper()
	key, err := token.OpenKey(l.data)
	if err != nil {
		l.Fatal(err)
	}
	text, _, err := key.Issue(ns, account, time.Now(), time.Hour)
	if err != nil {
		l.Fatal(err)
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+text)
}

// clusters opens a stream as the node, asks for clusters, and waits for the answer or the error.
func (l *lab) clusters(ctx context.Context, conn *grpc.ClientConn, node string) error {
	l.Helper()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(&discovery.DeltaDiscoveryRequest{Node: &core.Node{Id: node}, TypeUrl: resource.Cluster.URL()})
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err = stream.Recv()
	return err
}
