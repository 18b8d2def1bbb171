package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// alphaOwn is what the namespace alpha registers for itself: a host with addresses, which only it sees; a host that it goes straight to, and that is
// nobody's to others; and one for everybody, whose ports are unusual, so that alpha decides how they are read for its own pods.
const alphaOwn = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: written, namespace: alpha, annotations: {egress.sallyport.io/gateway: direct}}
spec:
  hosts: [written.ambient.test]
  addresses: [192.0.2.77]
  location: MESH_EXTERNAL
  resolution: STATIC
  endpoints: [{address: %[1]s}]
  ports: [{number: %[2]d, name: http, protocol: HTTP}, {number: %[3]d, name: tls, protocol: TLS}, {number: %[4]d, name: tcp, protocol: TCP}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: free, namespace: alpha, annotations: {egress.sallyport.io/gateway: direct}}
spec:
  hosts: [free.ambient.test]
  exportTo: ["."]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: %[2]d, name: http, protocol: HTTP}, {number: %[3]d, name: tls, protocol: TLS}, {number: %[4]d, name: tcp, protocol: TCP}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: shared, namespace: alpha}
spec:
  hosts: [shared.ambient.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: %[2]d, name: http, protocol: HTTP}, {number: %[3]d, name: tls, protocol: TLS}, {number: %[4]d, name: tcp, protocol: TCP}]
`

// ownTables holds that a pod whose namespace sees something of its own is served as a sidecar would serve it, that the node's other pods see nothing of it, and
// that what is open in them stays open.
func (a *ambientNode) ownTables(t *testing.T) {
	kept, err := a.beta.keep(a.ctx, "mesh.ambient.test", ambientEcho)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kept.Close() }()
	a.scene.Outside.Set("shared.ambient.test", time.Minute, world.OutsideAddrs[0])
	a.write(t, "alpha-own.yaml", fmt.Sprintf(alphaOwn, world.OutsideAddrs[0], ambientHTTP, ambientTLS, ambientTCP))
	a.until(t, a.alpha, "written.ambient.test", true)
	if at, err := a.alpha.resolve(a.ctx, "written.ambient.test"); err != nil || at != netip.MustParseAddr("192.0.2.77") {
		t.Errorf("to alpha the host is at %v (%v), want what the entry says", at, err)
	}
	if at, err := a.beta.resolve(a.ctx, "written.ambient.test"); err == nil {
		t.Errorf("to beta alpha's own host is at %v", at)
	}
	for _, p := range []*ambientPod{a.alpha, a.beta} {
		for _, host := range []string{"mesh.ambient.test", "straight.ambient.test", "free.ambient.test", "shared.ambient.test"} {
			a.until(t, p, host, true)
		}
	}
	a.path(t, a.alpha, "written.ambient.test", record.PathDirect)
	a.path(t, a.alpha, "free.ambient.test", record.PathDirect)
	a.path(t, a.beta, "free.ambient.test", record.PathPassthrough)
	a.path(t, a.alpha, "shared.ambient.test", record.PathGateway)
	a.path(t, a.beta, "shared.ambient.test", record.PathGateway)
	if err := kept.ping(); err != nil {
		t.Errorf("what beta had open: %v", err)
	}
	if err := a.scene.Config.Remove("alpha-own.yaml"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*ambientPod{a.alpha, a.beta} {
		a.until(t, p, "mesh.ambient.test", true)
		a.path(t, p, "free.ambient.test", record.PathPassthrough)
	}
	if err := kept.ping(); err != nil {
		t.Errorf("what beta had open: %v", err)
	}
}

// path holds that what a pod asks of a host goes some way now, by the log and by explain.
func (a *ambientNode) path(t *testing.T, p *ambientPod, host, want string) {
	t.Helper()
	since := time.Now()
	asks := func() { _, _ = p.try(a.ctx, "http", host, ambientHTTP, "/") }
	a.recordedOf(t, p.name+" by "+want, host, asks, func(r record.Record) bool {
		return r.Workload.Principal == p.id && r.Path == want && r.Verdict == record.Allowed && r.Time.After(since)
	})
	out, _ := a.scene.Call(a.ctx, "explain", "--config-dir", a.scene.Config.Path, "--mesh-config", a.scene.MeshConfig(), "--from", p.name, "-o", "json", fmt.Sprintf("http://%s:%d", host, ambientHTTP))
	var said struct{ Path string }
	if err := json.Unmarshal(out, &said); err != nil || said.Path != want {
		t.Errorf("explain %s to %s: %s (%v), want %s", host, p.name, out, err, want)
	}
}
