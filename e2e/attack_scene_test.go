package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// attack is a scene, and somebody in it who talks to the gateway without a sidecar.
type attack struct {
	scene *story.Scene
	mesh  issuer
	app   tls.Certificate // the app pod's own: default/app
	book  *headerBook
}

const appID = "spiffe://cluster.local/ns/default/sa/app"

// theTTL is that of the names that the attacker's name server has.
const theTTL = time.Minute

// attackEntries is what is registered beside external.com. Each host resolves to what attackNames says.
const attackEntries = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: second, namespace: default}
spec:
  hosts: [second.com]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 80, name: http, protocol: HTTP}
  - {number: 443, name: https, protocol: HTTPS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: headers, namespace: default}
spec:
  hosts: [headers.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 8080, name: http, protocol: HTTP}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: team, namespace: team-a}
spec:
  hosts: [team.test]
  exportTo: ["."]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 8080, name: http, protocol: HTTP}
  - {number: 443, name: https, protocol: HTTPS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: wild, namespace: default}
spec:
  hosts: ["*.wild.test"]
  location: MESH_EXTERNAL
  resolution: DYNAMIC_DNS
  ports:
  - {number: 80, name: http, protocol: HTTP}
  - {number: 443, name: https, protocol: HTTPS}
`

// insideEntry registers one of the names that lead inside.
const insideEntry = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: inside-%d, namespace: default}
spec:
  hosts: ["%s"]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 16000, name: http, protocol: HTTP}
  - {number: 16001, name: tcp, protocol: TCP, targetPort: 16000}
`

// ownEntries register the gateway's own host without DNS, or by names that a resolver makes up.
const ownEntries = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: static, namespace: default}
spec:
  hosts: [static.test]
  location: MESH_EXTERNAL
  resolution: STATIC
  endpoints:
  - {address: 127.0.0.1}
  ports:
  - {number: 16000, name: http, protocol: HTTP}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: every-localhost, namespace: default}
spec:
  hosts: ["*.localhost"]
  location: MESH_EXTERNAL
  resolution: DYNAMIC_DNS
  ports:
  - {number: 16000, name: http, protocol: HTTP}
`

// insideHosts are names that lead to the gateway itself or to its neighbours, by DNS or by what every host knows.
var insideHosts = map[string]string{
	"loopback.test": "127.0.0.1", "metadata.test": "169.254.169.254", "private.test": world.ControlAddr.String(),
	"mixed.test": world.ControlAddr.String(), "localhost": "", "admin.localhost": "", "ip6-localhost": "",
}

// attackNames is what the attacker's name server says.
var attackNames = map[string][]netip.Addr{
	"headers.test":     {world.OutsideAddrs[3]},
	"team.test":        {world.OutsideAddrs[3]},
	"a.wild.test":      {world.OutsideAddrs[3]},
	"b.wild.test":      {world.OutsideAddrs[1]},
	"hidden.test":      {world.OutsideAddrs[1]},
	"loopback.test":    {netip.MustParseAddr("127.0.0.1")},
	"metadata.test":    {netip.MustParseAddr("169.254.169.254")},
	"private.test":     {world.ControlAddr},
	"mixed.test":       {world.ControlAddr, world.OutsideAddrs[3]},
	"rebind.wild.test": {world.ControlAddr},
}

// newAttack sets the scene and waits until what is registered is in force at the gateway.
func newAttack(t *testing.T) *attack {
	t.Helper()
	ctx, scene := setScene(t, story.InNamespaces)
	a := &attack{scene: scene, mesh: meshCA(t, filepath.Join(scene.Run.Dir, "data")), app: identityOf(t, scene.App.RunDir())}
	for name, addrs := range attackNames {
		scene.Outside.Set(name, theTTL, addrs...)
	}
	var err error
	if a.book, err = startHeaderBook(t, scene.World.Outside, net.JoinHostPort(world.OutsideAddrs[3].String(), "8080")); err != nil {
		t.Fatal(err)
	}
	entries := attackEntries + ownEntries
	for i, host := range slices.Sorted(maps.Keys(insideHosts)) {
		entries += fmt.Sprintf(insideEntry, i, host)
	}
	if err := scene.Config.Write("attack.yaml", entries); err != nil {
		t.Fatal(err)
	}
	err = world.Within(ctx, time.Minute, func() error {
		got := a.ask(t, a.app, "", get("headers.test:8080", "/ready")...)
		if got.status != "200" {
			return fmt.Errorf("headers.test: %s", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// get is a request as a sidecar sends it.
func get(authority, path string, more ...header) []header {
	return append([]header{{":method", "GET"}, {":scheme", "http"}, {":authority", authority}, {":path", path}}, more...)
}

// connectTo is a CONNECT.
func connectTo(authority string) []header {
	return []header{{":method", "CONNECT"}, {":authority", authority}}
}

// recorded waits for a record of a host that fits.
func (a *attack) recorded(t *testing.T, host string, fits func(record.Record) bool) record.Record {
	t.Helper()
	var found record.Record
	err := world.Within(t.Context(), time.Minute, func() error {
		records, err := a.scene.AuditRecords(t.Context(), "--host", host)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(records, fits)
		if i < 0 {
			return fmt.Errorf("of %s there are the records %+v", host, records)
		}
		found = records[i]
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return found
}

// resolved counts the questions for a name that reached the outside's name server.
func (a *attack) resolved(name string) int {
	return len(a.scene.Outside.Queries(func(q outside.Query) bool { return q.Name == name }))
}

// headerBook is a plain web server that remembers what it was asked, to the last header.
type headerBook struct {
	mu   sync.Mutex
	seen map[string][]http.Header // by path
	host map[string]string
}

func startHeaderBook(t *testing.T, at *world.Host, addr string) (*headerBook, error) {
	l, err := at.Listen(addr)
	if err != nil {
		return nil, err
	}
	b := &headerBook{seen: map[string][]http.Header{}, host: map[string]string{}}
	server := &http.Server{Handler: b, ReadHeaderTimeout: attackTimeout}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return b, nil
}

// ServeHTTP answers, with 503 below /fails.
func (b *headerBook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen[r.URL.Path] = append(b.seen[r.URL.Path], r.Header.Clone())
	b.host[r.URL.Path] = r.Host
	w.Header().Set("Server", "headers.test")
	if r.URL.Path == "/fails" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = fmt.Fprintf(w, "%s says hello", r.Host)
}

func (b *headerBook) requests(path string) []http.Header {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[path]
}

func (b *headerBook) hostOf(path string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.host[path]
}

// watch counts the connections that a host's address takes.
func watch(t *testing.T, at *world.Host, addr string) func() int {
	t.Helper()
	l, err := at.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	count := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			count++
			mu.Unlock()
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// inTunnel opens a tunnel of its own for something that must not work inside, and gives what came of it.
func (a *attack) inTunnel(t *testing.T, authority string, do func(net.Conn) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), attackTimeout)
	defer cancel()
	client, _, err := a.multiplexed(ctx, a.app)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	inside, err := openTunnel(ctx, client, authority)
	if err != nil {
		t.Fatalf("CONNECT %s: %v", authority, err)
	}
	defer func() { _ = inside.Close() }()
	err = do(inside)
	if ctx.Err() != nil {
		t.Errorf("the tunnel to %s was not closed", authority)
	}
	return err
}
