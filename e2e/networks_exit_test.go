package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

var farExit = netip.MustParseAddr("10.77.0.75")

// exitPodOf is a pod of the egress gateway, and exitSlice what makes pods its endpoints.
func exitPodOf(name string, at netip.Addr, labels string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: istio-system, labels: {istio: egressgateway, app: istio-egressgateway%s}}
spec: {serviceAccountName: istio-egressgateway-service-account, containers: []}
status: {podIP: %s, phase: Running}
---
`, name, labels, at)
}

const exitService = `apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec: {clusterIP: 10.96.0.75, selector: {istio: egressgateway}, ports: [{name: https, port: 443, targetPort: 8443}]}
---
`

// exitElsewhere is a mesh of two networks with an egress gateway in each, and a client in east, which reaches nothing of west straight.
type exitElsewhere struct {
	ctx   context.Context
	scene *story.Scene
	roots *tls.Config
}

// TestExitInAnotherNetwork: what leaves by an egress gateway in another network goes there through the gateway between, and is decided and recorded there as from any other
// client, whose identity the egress gateway sees itself. It is asked when the own network has none, and where none is, nothing leaves.
func TestExitInAnotherNetwork(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, scene := setScene(t, story.InNamespaces)
	x := &exitElsewhere{ctx: ctx, scene: scene, roots: &tls.Config{RootCAs: caPool(t, scene.Outside.CA.PEM()), ServerName: "external.com", MinVersion: tls.VersionTLS12}}
	x.write(t, "networks.yaml", networksObjects)
	x.write(t, "app.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: app-1, namespace: default, labels: {app: app}}\nspec: {serviceAccountName: app, containers: []}\nstatus: {podIP: 10.77.0.10, phase: Running}\n")
	x.exits(t, "near", "far")
	if out, err := scene.App.Host().Run(ctx, 0, "ip", "route", "add", "unreachable", farExit.String()); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	setting, cancel := context.WithTimeout(ctx, sceneLimit)
	defer cancel()
	if _, err := scene.AddRouter(setting, "eastwest-1", "istio-system", "istio-eastwestgateway-service-account", eastWest, "istio=eastwestgateway", "topology.istio.io/network=west"); err != nil {
		t.Fatal(err)
	}
	host, err := scene.World.AddPod("egress-far", farExit)
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Etc("ssl/certs/ca-certificates.crt", scene.Outside.CA.PEM()); err != nil {
		t.Fatal(err)
	}
	if _, err := scene.AddPlaced(setting, story.Placed{
		Host: host, Address: farExit, Role: "router", Name: "egress-far", Namespace: "istio-system", Account: "istio-egressgateway-service-account",
		Labels: []string{"istio=egressgateway", "app=istio-egressgateway", "topology.istio.io/network=west"},
	}); err != nil {
		t.Fatal(err)
	}
	inOrder(t, []part{
		{"the own network's is asked first", x.near},
		{"it leaves, and the other network's takes over", x.leaves},
		{"policies decide there, and records say who it was", x.policed},
		{"none is there", x.none},
		{"they come back", x.back},
	})
}

func (x *exitElsewhere) write(t *testing.T, name, text string) {
	t.Helper()
	if err := x.scene.Config.Write(name, text); err != nil {
		t.Fatal(err)
	}
}

// exits writes which egress gateways there are.
func (x *exitElsewhere) exits(t *testing.T, names ...string) {
	t.Helper()
	text := exitService
	for _, name := range names {
		if name == "near" {
			text += exitPodOf("egress-1", world.GatewayAddr, "")
		} else {
			text += exitPodOf("egress-far", farExit, ", topology.istio.io/network: west")
		}
	}
	x.write(t, "gateway.yaml", text)
}

// get asks the host outside for its page, in plain text and by TLS of the app's own, on new connections.
func (x *exitElsewhere) get(secure bool) (status int, body string, err error) {
	client := x.scene.App.Host().HTTPClient()
	defer client.CloseIdleConnections()
	to, scheme := netip.AddrPortFrom(world.OutsideAddrs[0], 80), "http"
	if secure {
		to, scheme = netip.AddrPortFrom(world.OutsideAddrs[0], 443), "https"
		client.Transport.(*http.Transport).TLSClientConfig = x.roots
	}
	r, err := http.NewRequestWithContext(x.ctx, http.MethodGet, scheme+"://"+to.String()+"/", nil)
	if err != nil {
		return 0, "", err
	}
	r.Host = "external.com"
	resp, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}

// by is nil when both come from an address.
func (x *exitElsewhere) by(at netip.Addr) error {
	for _, secure := range []bool{false, true} {
		status, body, err := x.get(secure)
		if err == nil && (status != http.StatusOK || !strings.Contains(body, at.String())) {
			err = fmt.Errorf("%d: %s", status, body)
		}
		if err != nil {
			return fmt.Errorf("TLS %t, by %s: %w", secure, at, err)
		}
	}
	return nil
}

func (x *exitElsewhere) becomes(t *testing.T, what string, f func() error) {
	t.Helper()
	if err := world.Within(x.ctx, time.Minute, f); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func (x *exitElsewhere) near(t *testing.T) {
	x.becomes(t, "both are there", func() error { return x.by(world.GatewayAddr) })
	for range 20 {
		if err := x.by(world.GatewayAddr); err != nil {
			t.Fatal(err)
		}
	}
}

// leaves: no request fails while the one egress gateway takes over from the other.
func (x *exitElsewhere) leaves(t *testing.T) {
	x.exits(t, "far")
	x.becomes(t, "the other takes over", func() error {
		for _, secure := range []bool{false, true} {
			if status, body, err := x.get(secure); err != nil || status != http.StatusOK {
				t.Errorf("TLS %t: a request failed meanwhile: %d %s %v", secure, status, body, err)
			}
		}
		return x.by(farExit)
	})
}

func (x *exitElsewhere) policed(t *testing.T) {
	recorded := func(what string, is func(r record.Record) bool) {
		t.Helper()
		x.becomes(t, "the record of "+what, func() error {
			for _, secure := range []bool{false, true} { // what was asked before may have been answered by somebody else
				_, _, _ = x.get(secure)
			}
			all, err := x.scene.AuditRecords(x.ctx, "--host", "external.com")
			if err != nil {
				return err
			}
			for _, r := range all {
				if strings.Contains(r.Proxy, "egress-far") && r.Workload.Principal == "spiffe://cluster.local/ns/default/sa/app" && is(r) {
					return nil
				}
			}
			return fmt.Errorf("%d records, none of them", len(all))
		})
	}
	recorded("a request", func(r record.Record) bool { return r.Verdict == record.Allowed && r.Status == http.StatusOK })
	recorded("a TLS connection", func(r record.Record) bool { return r.Verdict == record.Allowed && r.Protocol == "tls" })
	x.write(t, "policy.yaml", "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: nobody, namespace: default}\nspec:\n"+
		"  serviceAccounts: [app]\n  rules: [{name: closed, hosts: [external.com], action: Deny, reason: tried}]\n")
	x.becomes(t, "the policy denies", func() error {
		status, body, err := x.get(false)
		if err == nil && status != http.StatusForbidden {
			err = fmt.Errorf("%d: %s", status, body)
		}
		if _, body, open := x.get(true); open == nil {
			err = errors.Join(err, fmt.Errorf("TLS passes: %s", body))
		}
		return err
	})
	recorded("a denied request", func(r record.Record) bool {
		return r.Verdict == record.Denied && r.DecidedBy.Name == "nobody" && r.DecidedBy.Rule == "closed" && r.Status == http.StatusForbidden
	})
	recorded("a denied TLS connection", func(r record.Record) bool {
		return r.Verdict == record.Denied && r.DecidedBy.Name == "nobody" && r.Protocol == "tls"
	})
	if err := x.scene.Config.Remove("policy.yaml"); err != nil {
		t.Fatal(err)
	}
	x.becomes(t, "without the policy", func() error { return x.by(farExit) })
}

// none: what should leave by a gateway stays in where there is none, whatever the mesh's policy for other hosts.
func (x *exitElsewhere) none(t *testing.T) {
	for _, policy := range []string{"REGISTRY_ONLY", "ALLOW_ANY"} {
		if err := x.scene.SetPolicy(x.ctx, policy); err != nil {
			t.Fatal(err)
		}
		x.exits(t)
		x.becomes(t, policy+": nothing leaves", func() error {
			status, body, err := x.get(false)
			if err == nil && status == http.StatusOK {
				return errors.New("a request left: " + body)
			}
			if _, body, err = x.get(true); err == nil {
				return errors.New("TLS left: " + body)
			}
			return nil
		})
	}
}

func (x *exitElsewhere) back(t *testing.T) {
	x.exits(t, "far")
	x.becomes(t, "the other network's", func() error { return x.by(farExit) })
	x.exits(t, "near", "far")
	x.becomes(t, "the own one", func() error { return x.by(world.GatewayAddr) })
}
