package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	securityv1alpha1 "istio.io/api/security/v1alpha1"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// claims: what a client writes about itself changes nothing in the log, and a certificate of two is nobody's.
func (a *attack) claims(t *testing.T) {
	got := a.ask(t, a.app, "", get("headers.test:8080", "/claims", header{"x-forwarded-for", "198.51.100.66"}, header{"x-envoy-external-address", "198.51.100.66"}, header{"forwarded", "for=198.51.100.66"})...)
	if got.status != "200" {
		t.Fatal(got)
	}
	r := a.recorded(t, "headers.test", func(r record.Record) bool { return r.URLPath == "/claims" })
	if from, _, _ := net.SplitHostPort(r.Source); from != world.ControlAddr.String() || r.ForwardedFor != "198.51.100.66" || r.Workload.Principal != appID {
		t.Errorf("recorded: %+v", r)
	}
	// The same through a sidecar.
	out, err := a.scene.App.Host().Run(t.Context(), 1000, "curl", "-s", "-o", "/dev/null", "-H", "X-Forwarded-For: 198.51.100.66", "http://external.com/claims-by-sidecar")
	if err != nil {
		t.Fatalf("curl: %v, %s", err, out)
	}
	r = a.recorded(t, "external.com", func(r record.Record) bool { return r.URLPath == "/claims-by-sidecar" })
	if from, _, _ := net.SplitHostPort(r.Source); from != world.AppAddr.String() {
		t.Errorf("recorded by the sidecar's way: %+v", r)
	}
	two := a.mesh.issue(t, "spiffe://cluster.local/ns/team-a/sa/any", time.Hour, appID)
	for _, fields := range [][]header{get("team.test:8080", "/two"), get("headers.test:8080", "/two"), connectTo("team.test:443")} {
		if got := a.ask(t, two, "", fields...); got.status != "" {
			t.Errorf("a certificate with two names: %s", got)
		}
	}
	if len(a.book.requests("/two")) > 0 {
		t.Error("a request with two names reached its server")
	}
}

// tooLong: what a client may write without end is cut in the log, and marked.
func (a *attack) tooLong(t *testing.T) {
	long := strings.Repeat("a-very-long-", 1500) // 18 KB
	for what, c := range map[string]struct {
		fields []header
		glob   string
		cut    string
	}{
		"path": {get("headers.test:8080", "/long/"+long), "headers.test", "urlPath"},
		"host": {get(long+".test", "/"), "a-very-long-*", "host"},
	} {
		if got := a.ask(t, a.app, "", c.fields...); got.status != "200" && got.status != "403" {
			t.Errorf("%s: %s", what, got)
		}
		r := a.recorded(t, c.glob, func(r record.Record) bool { return slices.Contains(r.Cut, c.cut) })
		text, err := json.Marshal(r)
		if err != nil || len(text) > record.MaxSize || r.Workload.Principal != appID {
			t.Errorf("%s: a record of %d bytes, %v, of %s", what, len(text), err, r.Workload.Principal)
		}
	}
}

// controller connects to the controller as a workload that has a certificate and nothing else.
func (a *attack) controller(t *testing.T, certificate tls.Certificate) *grpc.ClientConn {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
	conn, err := grpc.NewClient("passthrough:///"+net.JoinHostPort(world.ControlAddr.String(), "15012"), grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return a.scene.World.Control.DialContext(ctx, "tcp", addr)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ownGateway: whoever may write an entry and a Service has a gateway, but it is not believed about others; and a stolen
// certificate renews nothing.
func (a *attack) ownGateway(t *testing.T) {
	if err := a.scene.Config.Write("own-gateway.yaml", `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: own-gateway, namespace: team-a, annotations: {egress.sallyport.io/gateway: team-a/mallory}}
spec:
  hosts: [own-gateway.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 443, name: tls, protocol: TLS}]
---
apiVersion: v1
kind: Service
metadata: {name: mallory, namespace: team-a}
spec: {selector: {app: mallory}, ports: [{name: tls, port: 443}]}
`); err != nil {
		t.Fatal(err)
	}
	const mallory = "spiffe://cluster.local/ns/team-a/sa/mallory"
	conn := a.controller(t, a.mesh.issue(t, mallory, time.Hour))
	lie := record.Record{
		Proxy: "router~10.9.9.9~mallory.team-a~team-a.svc.cluster.local", Epoch: uint64(time.Now().UnixNano()), Seq: 1, Time: time.Now(),
		Class: record.HTTP, Verdict: record.Allowed, Reporter: record.ReporterGateway, Host: "slander.test", URLPath: "/" + strings.Repeat("x", 1<<20),
		Workload: record.Workload{Principal: appID, Namespace: "default", ServiceAccount: "app", Name: "app-1"},
	}
	if err := ingest.NewClient(conn).Store(t.Context(), []record.Record{lie}); err != nil {
		t.Fatal(err)
	}
	r := a.recorded(t, "slander.test", func(record.Record) bool { return true })
	if r.Workload.Principal != mallory || r.Workload.Namespace != "team-a" || r.Workload.Name != "" || r.Claim != appID || !slices.Equal(r.Cut, []string{"urlPath"}) || len(r.URLPath) > record.MaxSize {
		t.Errorf("recorded: %.500v", r)
	}
	_, err := securityv1alpha1.NewIstioCertificateServiceClient(conn).CreateCertificate(t.Context(), &securityv1alpha1.IstioCertificateRequest{Csr: "any"})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a certificate renewed itself: %v", err)
	}
}
