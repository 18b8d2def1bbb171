package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// authorizerAddr is where the gateways' authorizer is.
var authorizerAddr = netip.MustParseAddr("10.77.0.89")

// authorizerIn starts an authorizer on a pod of its own, and makes it the mesh's.
func authorizerIn(t *testing.T, scene *story.Scene) *authorizer {
	t.Helper()
	a := &authorizer{}
	at, err := scene.World.AddPod("authorizer", authorizerAddr)
	if err != nil {
		t.Fatal(err)
	}
	a.serve(t, at, authorizerAddr)
	a.provide(t, scene, authorizerAddr)
	return a
}

// serve answers at a host, by gRPC and by HTTP.
func (a *authorizer) serve(t *testing.T, at *world.Host, addr netip.Addr) {
	t.Helper()
	listen := func(port uint16) net.Listener {
		l, err := at.Listen(netip.AddrPortFrom(addr, port).String())
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	byGRPC := grpc.NewServer()
	authv3.RegisterAuthorizationServer(byGRPC, a)
	byHTTP := &http.Server{Handler: a, ReadHeaderTimeout: attackTimeout}
	ended := make(chan error, 2)
	l, m := listen(authorizerGRPC), listen(authorizerHTTP)
	go func() { ended <- byGRPC.Serve(l) }()
	go func() { ended <- byHTTP.Serve(m) }()
	t.Cleanup(func() {
		byGRPC.Stop()
		_ = byHTTP.Close()
		<-ended
		<-ended
	})
}

// provide names it in the mesh's settings, and registers where it is.
func (a *authorizer) provide(t *testing.T, scene *story.Scene, addr netip.Addr) {
	t.Helper()
	settings, err := os.ReadFile(scene.MeshConfig())
	if err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(scene.Run.Dir, "mesh-with-authorizers.yaml") // it appears whole: the controller reads it whenever it changes
	if err := errors.Join(os.WriteFile(whole, append(settings, authorizerSettings...), 0o644), os.Rename(whole, scene.MeshConfig())); err != nil {
		t.Fatal(err)
	}
	if err := scene.Config.Write("authorizers.yaml", fmt.Sprintf(authorizerObjects, addr)); err != nil {
		t.Fatal(err)
	}
}

const ingressCustom = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: asked, namespace: istio-ingress}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  action: CUSTOM
  provider: {name: %s}
  rules: [{to: [{operation: {hosts: [plain.test], paths: ["/asked*"]}}]}, {to: [{operation: {ports: ["9000"]}}]}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: asked, namespace: shop}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  action: CUSTOM
  provider: {name: unheard-of}
  rules: [{}]
`

// custom: an ingress gateway has an authorizer asked about what comes in, of requests by gRPC and HTTP, of connections by gRPC; while it is away what
// the rules mean is closed. What another namespace wants asked is nothing to it.
func (in *ingressScene) custom(t *testing.T) {
	asked := authorizerIn(t, in.scene)
	deny := http.Header{"X-Asks": {"deny"}}
	holds := func(provider string, all func() error) {
		t.Helper()
		if err := in.scene.Config.Write("custom.yaml", fmt.Sprintf(ingressCustom, provider)); err != nil {
			t.Fatal(err)
		}
		if err := world.Within(t.Context(), time.Minute, all); err != nil {
			t.Errorf("%s: %v", provider, err)
		}
	}
	status := func(path string, header http.Header, want int) error {
		return in.answers(t.Context(), path, header, want)
	}
	holds("by-grpc", func() error {
		return errors.Join(status("/asked", deny, 401), status("/asked", nil, 200), status("/open", deny, 200), in.closed(t.Context()))
	})
	asked.mu.Lock()
	if got := asked.last.GetAttributes().GetSource().GetPrincipal(); got != "" {
		t.Errorf("somebody outside is told as %q", got)
	}
	asked.mu.Unlock()
	holds("by-http", func() error {
		return errors.Join(status("/asked", deny, 402), status("/asked", nil, 200), status("/open", deny, 200), in.closed(t.Context()))
	})
	holds("away", func() error {
		return errors.Join(status("/asked", nil, 403), status("/open", nil, 200), in.closed(t.Context()))
	})
	holds("away-open", func() error { return errors.Join(status("/asked", nil, 200), in.opens(t.Context())) })
	if err := in.scene.Config.Remove("custom.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(t.Context(), time.Minute, func() error { return errors.Join(status("/asked", deny, 200), in.opens(t.Context())) }); err != nil {
		t.Error(err)
	}
}

// opens says nil when what a new connection says comes back.
func (in *ingressScene) opens(ctx context.Context) error {
	c, err := in.client.DialContext(ctx, "tcp", net.JoinHostPort(ingressAddr.String(), "9000"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(attackTimeout)); err != nil {
		return err
	}
	const says = "hello\nlet me in\n"
	if _, err := io.WriteString(c, "let me in\n"); err != nil {
		return err
	}
	got := make([]byte, len(says))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != says {
		return fmt.Errorf("%q came back: %w", got, err)
	}
	return nil
}

// custom: an egress gateway has an authorizer asked about requests; what is no request is closed where a rule means it.
func (p *policed) custom(t *testing.T) {
	const host = "one.policed.test"
	asked := authorizerIn(t, p.scene)
	status := func(path string, header http.Header, want int) error {
		got, text, err := p.app.get(p.ctx, attackTimeout, host, policedHTTP, path, header)
		if err == nil && got != want {
			err = fmt.Errorf("%s: %d %q, want %d", path, got, text, want)
		}
		return err
	}
	holds := func(spec string, open map[string]bool, more ...func() error) {
		t.Helper()
		p.authorize(t, "", atGateway+spec)
		p.untilSchemes(t, host, open)
		for _, more := range more {
			if err := world.Within(p.ctx, time.Minute, more); err != nil {
				t.Errorf("%s: %v", spec, err)
			}
		}
	}
	deny := http.Header{"X-Asks": {"deny"}}
	requests := "  rules: [{to: [{operation: {ports: ['9581'], paths: ['/asked*']}}]}]\n"
	everything := map[string]bool{"http": true, "tls": true, "tcp": true}
	p.write(t, "  default: Allow\n")
	holds("  action: CUSTOM\n  provider: {name: by-grpc}\n"+requests, everything,
		func() error {
			return errors.Join(status("/asked", deny, 401), status("/asked", http.Header{}, 200), status("/else", deny, 200))
		})
	asked.mu.Lock()
	if got := asked.last.GetAttributes().GetSource().GetPrincipal(); got != "spiffe://cluster.local/ns/default/sa/app" {
		t.Errorf("the client is told as %q", got)
	}
	asked.mu.Unlock()
	p.recorded(t, "what the provider denies", host, func(r record.Record) bool {
		return r.Verdict == record.Denied && r.URLPath == "/asked" && r.DecidedBy.Kind == "AuthorizationPolicy" && r.DecidedBy.Name == "way"
	})
	holds("  action: CUSTOM\n  provider: {name: by-http}\n"+requests, everything,
		func() error { return errors.Join(status("/asked", deny, 402), status("/asked", http.Header{}, 200)) })
	holds("  action: CUSTOM\n  provider: {name: by-grpc}\n  rules: [{}]\n", map[string]bool{"http": true}, func() error { return status("/any", deny, 401) })
	holds("  action: CUSTOM\n  provider: {name: away}\n"+requests, everything, func() error { return status("/asked", http.Header{}, 403) })
	holds("  action: CUSTOM\n  provider: {name: unheard-of}\n  rules: [{}]\n", map[string]bool{})
	p.authorize(t, "", "")
	p.untilSchemes(t, host, everything)
}
