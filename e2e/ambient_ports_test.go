package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// comingPort is one that nothing is registered at.
const comingPort = 9691

const comingObject = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: coming, namespace: default, annotations: {egress.sallyport.io/gateway: direct}}
spec: {hosts: [coming.ambient.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %d, name: http, protocol: HTTP}]}
`

// portsComeAndGo holds that a port at which something comes to be registered, and of which nothing is known any more later, ends no connection of a pod and fails no request; that
// what is open to it goes on as what is new does; and that nobody but the proxy says which table a request is looked up in.
func (a *ambientNode) portsComeAndGo(t *testing.T) {
	a.scene.Outside.Set("coming.ambient.test", time.Minute, world.OutsideAddrs[0])
	l, err := a.scene.World.Outside.Listen(netip.AddrPortFrom(world.OutsideAddrs[0], comingPort).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for name := range r.Header {
				if strings.HasPrefix(strings.ToLower(name), "x-sallyport-") {
					w.WriteHeader(http.StatusTeapot)
					_, _ = fmt.Fprintf(w, "the server was told %s", name)
				}
			}
		}))
	}()
	stream, err := a.alpha.keep(a.ctx, "mesh.ambient.test", ambientEcho)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	before, fresh := a.comingFrom(true), a.comingFrom(false)
	recorded := func(what, path string, ways ...*comingClient) {
		t.Helper()
		since := time.Now()
		a.recordedOf(t, what, "coming.ambient.test", func() {
			for _, c := range ways {
				if err := c.ask(a.ctx); err != nil {
					t.Error(err)
				}
			}
		}, func(r record.Record) bool {
			return r.Workload.Principal == a.alpha.id && r.Path == path && r.Verdict == record.Allowed && r.Time.After(since)
		})
	}
	if err := before.ask(a.ctx); err != nil {
		t.Fatal(err)
	}
	recorded("before it is registered", record.PathPassthrough, before, fresh)
	a.write(t, "coming.yaml", fmt.Sprintf(comingObject, comingPort))
	recorded("when it is registered", record.PathDirect, before, fresh)
	while := a.comingFrom(true)
	recorded("by a connection that stays", record.PathDirect, while)
	if err := a.scene.Config.Remove("coming.yaml"); err != nil {
		t.Fatal(err)
	}
	recorded("when it is gone", record.PathPassthrough, before, fresh, while)
	recorded("by what was open to it", record.PathPassthrough, while)
	for what, c := range map[string]*comingClient{"before it was registered": before, "while it was": while} {
		if n := c.dialled.Load(); n != 1 {
			t.Errorf("what was opened %s was opened %d times", what, n)
		}
	}
	if err := stream.ping(); err != nil {
		t.Errorf("a stream to another port: %v", err)
	}
}

// comingClient asks the server at that port, from a pod.
type comingClient struct {
	http.Client
	dialled atomic.Int32
}

// comingFrom is one that keeps its connection, or opens one each time.
func (a *ambientNode) comingFrom(keeps bool) *comingClient {
	c := &comingClient{}
	c.Transport = &http.Transport{DisableKeepAlives: !keeps, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		c.dialled.Add(1)
		return a.alpha.host.DialContext(ctx, network, netip.AddrPortFrom(world.OutsideAddrs[0], comingPort).String())
	}}
	return c
}

func (c *comingClient) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://coming.ambient.test:%d/", comingPort), nil)
	if err != nil {
		return err
	}
	r.Header.Set("x-sallyport-routes", "80") // somebody else's table
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("answered %s: %s", resp.Status, said)
	}
	return err
}
