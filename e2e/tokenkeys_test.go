package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// rotated: keys that were fetched count over a restart of the control plane while their issuer is away; and when the issuer goes over to another key, as
// issuers do, by serving both for a while, none of its tokens is refused that is good at that moment, and those by a key that it dropped are.
func (p *tokenPod) rotated(t *testing.T) {
	at := netip.AddrPortFrom(world.OutsideAddrs[0], 8897).String()
	serves := p.issuer(t, at)
	p.anna.name = "https://anna.test"
	next := newSigner(t, p.anna.name, "a2")
	old, young := p.anna.token(t, "u1", nil), next.token(t, "u1", nil)
	rule := authentication(fmt.Sprintf("{issuer: %q, jwksUri: 'http://%s/keys'}", p.anna.name, at))
	restart := func(served string) {
		t.Helper()
		if err := p.scene.KillController(t.Context()); err != nil {
			t.Fatal(err)
		}
		serves.Store(served)
		if err := p.scene.StartController(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	serves.Store(keys(t, p.anna))
	p.verify(t, rule)
	p.eventually(t, "by the first key", old)
	p.answers(t, "by the next key", young, 401)

	stop := p.neverRefused(t, old)
	restart("")
	p.verify(t, rule) // which the control plane tells of after its restart
	restart(keys(t, p.anna, next))
	p.eventually(t, "by the next key", young)
	stop()

	stop = p.neverRefused(t, young)
	restart(keys(t, next))
	p.answers(t, "by a key that was dropped", old, 401)
	stop()
}

// issuer serves what is stored as keys; "" is that it is away.
func (p *tokenPod) issuer(t *testing.T, at string) *atomic.Value {
	t.Helper()
	l, err := p.scene.World.Outside.Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	serves := &atomic.Value{}
	serves.Store("")
	server := &http.Server{ReadHeaderTimeout: attackTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := serves.Load().(string)
		if text == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, text)
	})}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { _ = server.Close(); running.Wait() })
	return serves
}

// neverRefused asks with a token, over and over, until it is stopped, and ten times at least.
func (p *tokenPod) neverRefused(t *testing.T, token string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for asked := 0; ctx.Err() == nil || asked < 10; asked++ {
			if _, err := p.ask(t.Context(), p.scene.World.App, "/rotated", "Authorization", "Bearer "+token); err != nil {
				t.Errorf("at %s, after %d requests: %v", time.Now().Format(time.TimeOnly), asked, err)
				return
			}
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}
