package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/e2e/freeport"
)

const entry = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a, namespace: default}
spec:
  hosts: [a.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 443, name: tls, protocol: TLS}]
`

func TestReadiness(t *testing.T) {
	l := begin(t, "")
	if code, _ := l.get("/healthz"); code != http.StatusOK {
		t.Errorf("alive: %d", code)
	}
	if code, body := l.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "not been read") {
		t.Errorf("before anything was read: %d %s", code, body)
	}
	l.feed("") // an empty directory is configuration too
	l.becomes("ready", func() bool { code, _ := l.get("/readyz"); return code == http.StatusOK })
	l.stop()
	if err := l.over(); err != nil {
		t.Error(err)
	}
}

func TestAdmin(t *testing.T) {
	l := begin(t, "")
	l.feed(entry + "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: bad}\nspec: {hosts: 7}\n")
	l.becomes("the finding is shown", func() bool { _, body := l.get("/debug/findings"); return strings.Contains(body, "bad") })
	ctx, leave := context.WithCancel(t.Context())
	if err := l.clusters(ctx, l.plain(), proxy); err != nil {
		t.Fatal(err)
	}
	if _, body := l.get("/debug/proxies"); !strings.Contains(body, proxy) {
		t.Errorf("proxies: %s", body)
	}
	if got := l.dump(proxy, "virtualHosts"); got["443/a.test"] == nil {
		t.Errorf("virtual hosts: %v", got)
	}
	if code, body := l.get("/debug/xds?proxy=nobody"); code != http.StatusNotFound || !strings.Contains(body, "/debug/proxies") {
		t.Errorf("nobody's: %d %s", code, body)
	}
	if code, body := l.get("/metrics"); code != http.StatusOK || !strings.Contains(body, "sallyport_xds_proxies 1") || !strings.Contains(body, "go_goroutines") {
		t.Errorf("metrics: %d", code)
	}
	if code, _ := l.get("/debug/pprof/"); code != http.StatusOK {
		t.Errorf("pprof: %d", code)
	}
	leave()
	l.becomes("the proxy left", func() bool { _, body := l.get("/debug/proxies"); return !strings.Contains(body, proxy) })
}

// TestMeshSettings: a changed file counts at once; a wrong one, or another trust domain, leaves things as they are.
func TestMeshSettings(t *testing.T) {
	l := begin(t, "outboundTrafficPolicy: {mode: ALLOW_ANY}\n")
	l.feed(entry)
	if err := l.clusters(t.Context(), l.plain(), proxy); err != nil {
		t.Fatal(err)
	}
	mode := func(word string) func() bool {
		return func() bool { return strings.Contains(string(l.dump(proxy, "routes")["443"]), word) }
	}
	l.becomes("open", mode("allow_any"))
	l.write(l.meshFile, "outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n")
	l.becomes("closed", mode("block_all"))
	l.write(l.meshFile, "outboundTrafficPolicy: {mode: SOMETIMES}\n")
	l.write(l.meshFile, "outboundTrafficPolicy: {mode: ALLOW_ANY}\ntrustDomain: other.mesh\n")
	l.becomes("open again", mode("allow_any"))
	if got := string(l.dump(proxy, "clusters")["outbound|443||istio-egressgateway.istio-system.svc.cluster.local"]); !strings.Contains(got, "spiffe://cluster.local/") {
		t.Errorf("the trust domain changed: %s", got)
	}
}

// TestMeshSettingsWhileStarting: what is written after the first reading and before anything is served counts too.
func TestMeshSettingsWhileStarting(t *testing.T) {
	l := &lab{T: t, meshFile: filepath.Join(t.TempDir(), "mesh.yaml")}
	l.write(l.meshFile, "outboundTrafficPolicy: {mode: ALLOW_ANY}\n")
	ctx, stop := context.WithCancel(t.Context())
	p, err := newPlane(ctx, Config{
		Source: &fed{}, MeshConfigFile: l.meshFile, DataDir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	l.write(l.meshFile, "outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n")
	ended := make(chan error, 1)
	go func() { ended <- p.configure(ctx) }()
	l.becomes("the later settings", func() bool { return !p.snapshot.Load().Mesh.OutboundAllowAny })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSourceFails(t *testing.T) {
	l := begin(t, "")
	l.source.fails <- errors.New("the disk is gone")
	if err := l.over(); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Error(err)
	}
}

// TestWrongSettings: what cannot run says which flag is to blame, and leaves no port open.
func TestWrongSettings(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	free, err := freeport.Addr()
	if err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]Config{
		"--xds-addr":        {XDSAddr: "0.0.0.0:0"},
		"--secure-xds-addr": {SecureAddr: taken.Addr().String()},
		"--admin-addr":      {XDSAddr: free, AdminAddr: taken.Addr().String()},
		"--data":            {DataDir: "/dev/null/x"},
		"nowhere.yaml":      {MeshConfigFile: "/nowhere.yaml"},
		"--audit-address":   {AuditAddress: "sallyport-audit:15016"},
	} {
		if cfg.DataDir == "" {
			cfg.DataDir = t.TempDir()
		}
		cfg.Log, cfg.Source = slog.New(slog.DiscardHandler), &fed{}
		if err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	again, err := net.Listen("tcp", free)
	if err != nil {
		t.Fatalf("a port was left open: %v", err)
	}
	_ = again.Close()
}

func TestLoopbackOnly(t *testing.T) {
	for addr, ok := range map[string]bool{
		"127.0.0.1:15010": true, "127.9.9.9:0": true, "[::1]:15010": true, "localhost:15010": true,
		"0.0.0.0:15010": false, ":15010": false, "[::]:15010": false, "10.0.0.1:15010": false, "example.com:1": false, "127.0.0.1": false, "": false,
	} {
		if err := loopbackOnly("--xds-addr", addr); (err == nil) != ok || (err != nil && !strings.Contains(err.Error(), "--xds-addr")) {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

// TestSecurePort: who may be which node.
func TestSecurePort(t *testing.T) {
	l := begin(t, "")
	l.feed(entry)
	l.becomes("ready", func() bool { code, _ := l.get("/readyz"); return code == http.StatusOK })
	conn := l.secure()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		node string
		want codes.Code
	}{
		{"nobody", t.Context(), proxy, codes.Unauthenticated},
		{"its own node", l.as(t.Context(), "default", "app"), proxy, codes.OK},
		{"another namespace's", l.as(t.Context(), "shop", "app"), proxy, codes.PermissionDenied},
		{"no node id", l.as(t.Context(), "default", "app"), "app", codes.InvalidArgument},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(tt.ctx)
			defer cancel()
			if err := l.clusters(ctx, conn, tt.node); status.Code(err) != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}
