package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/world"
)

// evilEntry is a pattern whose names nobody answers for, and one of somebody else.
const evilEntry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: evil, namespace: team-a}
spec:
  hosts: ["*.evil.test"]
  location: MESH_EXTERNAL
  resolution: DYNAMIC_DNS
  ports: [{number: 80, name: http, protocol: HTTP}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: fresh, namespace: default}
spec:
  hosts: ["*.fresh.test"]
  location: MESH_EXTERNAL
  resolution: DYNAMIC_DNS
  ports: [{number: 8080, name: http, protocol: HTTP}]
`

// namesUnanswered: a client asks for more names of its own pattern than the gateway's resolver has room for, and their name server says nothing.
// Names that others ask for the first time meanwhile are resolved.
func (a *attack) namesUnanswered(t *testing.T) {
	a.scene.Outside.Mute("evil.test")
	if err := a.scene.Config.Write("evil.yaml", evilEntry); err != nil {
		t.Fatal(err)
	}
	rival := a.requests(t, a.mesh.issue(t, rivalID, time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	for i := range 900 { // fewer than the streams that a connection may have
		asking.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://n%d-%d.evil.test/", i, n), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if resp, err := rival.Do(req); err == nil {
					_ = resp.Body.Close()
				}
				select { // an entry that is not in force yet, or no room, is said at once
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
	}
	asked := func() int {
		return len(a.scene.Outside.Queries(func(q outside.Query) bool { return strings.HasSuffix(q.Name, ".evil.test") }))
	}
	if err := world.Within(ctx, 2*time.Minute, func() error {
		if n := asked(); n < 200 {
			return fmt.Errorf("the name server was asked for %d names of the pattern only", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	const names, rounds = 10, 5
	atOnce, round := 0, 0
	for i := range names * rounds {
		if i == names*(round+1) { // a round that a busy machine was too slow for is followed by another one
			if atOnce > names/2 {
				break
			}
			round, atOnce = round+1, 0
		}
		host := fmt.Sprintf("n%d.fresh.test", i)
		a.scene.Outside.Set(host, theTTL, world.OutsideAddrs[3])
		serve := func() error {
			if got := a.ask(t, a.app, "", get(host+":8080", "/")...); got.status != "200" {
				return fmt.Errorf("%s, which nobody had asked for: %s", host, got)
			}
			return nil
		}
		if serve() == nil {
			atOnce++
		} else if err := world.Within(ctx, 2*time.Minute, serve); err != nil { // a busy machine answers some names too late, too
			t.Fatal(err)
		}
	}
	if atOnce <= names/2 {
		t.Errorf("of %d names that nobody had asked for %d were there when they were asked for first, and no more in %d rounds before", names, atOnce, round)
	}
	t.Logf("the name server was asked %d times for names of the pattern", asked())
}
