package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// olderPrograms is the environment variable that names a folder with the programs of an older release.
const olderPrograms = "SALLYPORT_OLDER_BIN"

// upgrade is a mesh whose programs are replaced: an app with a sidecar, an egress gateway, a node with pods, and a waypoint before two of them.
type upgrade struct {
	*waypointTest
	app          *ambientPod // which has a sidecar
	older, newer story.Programs
	agents       int // of the node, so far
}

// TestUpgrade holds that a mesh's programs are replaced by those of a newer release, one after the other, and by the older ones again: what is closed is closed at each moment, what is
// open is open after each of them, edits count, records come, and while a controller or a node's agent is replaced nothing fails.
func TestUpgrade(t *testing.T) {
	older := os.Getenv(olderPrograms)
	if older == "" {
		t.Skip("needs the programs of an older release: make test-skew OLD=REVISION")
	}
	needRoot(t)
	t.Parallel()
	u := &upgrade{}
	ctx, s := setScene(t, func(ctx context.Context, run *world.Run, programs story.Programs) (*story.Scene, error) {
		old, err := story.ProgramsIn(older)
		if err != nil {
			return nil, err
		}
		if u.newer, err = programs.CopyTo(filepath.Join(run.Dir, "newer")); err != nil {
			return nil, err
		}
		return story.InNamespaces(ctx, run, old)
	})
	u.older = s.Programs
	u.set(ctx, t, s)
	inOrder(t, []part{
		{"as it was", u.holds},
		{"a newer controller", u.controller(&u.newer)},
		{"a newer gateway", u.pod(&u.newer, u.gateway)},
		{"a newer waypoint", u.pod(&u.newer, u.waypoint)},
		{"a newer sidecar", u.pod(&u.newer, u.sidecar)},
		{"a newer node's agent", u.node(&u.newer)},
		{"the older node's agent again", u.node(&u.older)},
		{"the older sidecar again", u.pod(&u.older, u.sidecar)},
		{"the older waypoint again", u.pod(&u.older, u.waypoint)},
		{"the older gateway again", u.pod(&u.older, u.gateway)},
		{"the older controller again", u.controller(&u.older)},
	})
}

// set puts everything into the scene.
func (u *upgrade) set(ctx context.Context, t *testing.T, s *story.Scene) {
	t.Helper()
	u.waypointTest = waypointIn(ctx, t, s, frontedPods())
	u.serve(t)
	u.app = &ambientPod{name: "default/app-1", addr: world.AppAddr, host: s.World.App, caller: appOf(s)}
	u.alpha = u.ambientNode.pod(t, "alpha", alphaAddr)
	for i, addr := range []netip.Addr{betaAddr, beta2Addr} {
		name := fmt.Sprintf("web-%d", i+1)
		host, err := s.World.AddPod(name, addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.ambientNode.node.Tell(ctx, "add", "beta/"+name, host); err != nil {
			t.Fatal(err)
		}
		servePages(t, host, netip.AddrPortFrom(addr, frontedHTTP), func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, "v%d", i+1) })
	}
	u.write(t, "policy.yaml", "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: closed, namespace: istio-system}\n"+
		"spec: {rules: [{name: nothing, action: Deny, hosts: [straight.ambient.test]}, {name: rest, action: Allow, hosts: ['*']}]}\n")
	if err := s.SetPolicy(ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
}

// holds holds that what should be open is, and what should be closed, that an edit counts for all, and that what is asked is recorded.
func (u *upgrade) holds(t *testing.T) {
	t.Helper()
	for _, p := range []*ambientPod{u.app, u.alpha} {
		u.until(t, p, "mesh.ambient.test", true)
		u.until(t, p, "straight.ambient.test", false)
		u.until(t, p, "free.ambient.test", false)
	}
	u.answers(t, 200, "v1", "/")
	u.answers(t, 200, "v2", "/", "try: v2")
	u.answers(t, 403, "", "/secret")
	host := fmt.Sprintf("later%d.ambient.test", time.Now().UnixNano())
	u.scene.Outside.Set(host, time.Minute, world.OutsideAddrs[0])
	u.write(t, "later.yaml", fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: later, namespace: default}\n"+
		"spec: {hosts: [%q], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %d, name: http, protocol: HTTP}, {number: %d, name: tls, protocol: TLS}, {number: %d, name: tcp, protocol: TCP}]}\n", host, ambientHTTP, ambientTLS, ambientTCP))
	for _, p := range []*ambientPod{u.app, u.alpha} {
		u.until(t, p, host, true)
	}
	u.recordsOf(t, host)
	if err := u.scene.Config.Remove("later.yaml"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*ambientPod{u.app, u.alpha} {
		u.until(t, p, host, false)
	}
}

// recordsOf waits until the log has who asked for a host, and who asked in vain for another.
func (u *upgrade) recordsOf(t *testing.T, host string) {
	t.Helper()
	began := time.Now()
	for _, p := range []*ambientPod{u.app, u.alpha} {
		for _, host := range []string{host, "free.ambient.test"} {
			u.recordedOf(t, "of "+p.name, host, u.triesAll(p, host), func(r record.Record) bool {
				return r.Time.After(began) && strings.HasPrefix(p.name, r.Workload.Namespace+"/") // a gateway knows no more of who it is
			})
		}
	}
}

// controller replaces the controller: what runs goes on meanwhile.
func (u *upgrade) controller(by *story.Programs) func(*testing.T) {
	return func(t *testing.T) {
		u.replaced(t, true, func() error {
			if err := u.scene.KillController(u.ctx); err != nil {
				return err
			}
			u.scene.Programs.Sallyport = by.Sallyport
			return u.scene.StartController(u.ctx)
		})
	}
}

// pod replaces the agent of a pod, which is the only one of its kind.
func (u *upgrade) pod(by *story.Programs, which func() *story.Pod) func(*testing.T) {
	return func(t *testing.T) {
		u.replaced(t, false, func() error {
			u.scene.Programs.Agent = by.Agent
			return which().Restart(u.ctx, false)
		})
	}
}

func (u *upgrade) gateway() *story.Pod  { return u.scene.Gateway }
func (u *upgrade) sidecar() *story.Pod  { return u.scene.App }
func (u *upgrade) waypoint() *story.Pod { return u.waypointTest.pod }

// node has a second agent take the node, and ends the first.
func (u *upgrade) node(by *story.Programs) func(*testing.T) {
	return func(t *testing.T) {
		u.replaced(t, true, func() error {
			u.scene.Programs.Node = by.Node
			u.agents++
			next, err := u.ambientNode.node.Successor(u.ctx, fmt.Sprintf("agent-%d", u.agents), netip.AddrFrom4([4]byte{10, 77, 0, byte(100 + u.agents)}))
			if err != nil {
				return err
			}
			if err := next.Up(u.ctx); err != nil {
				return err
			}
			old := u.ambientNode.node.Process
			u.ambientNode.node = next
			return old.Stop(handoverDrain)
		})
	}
}

// replaced does something while what is closed is tried, and what is open, of which nothing may fail where it is quiet; and holds that all is as it should be after it.
func (u *upgrade) replaced(t *testing.T, quiet bool, do func() error) {
	ctx, end := context.WithCancel(u.ctx)
	var work sync.WaitGroup
	defer func() { end(); work.Wait() }()
	var mu sync.Mutex
	through, failed, done := "", []error{}, 0
	keepsOn := func(try func(context.Context)) {
		work.Go(func() {
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for ctx.Err() == nil {
				try(context.WithoutCancel(ctx))
				<-pace.C
			}
		})
	}
	for _, p := range []*ambientPod{u.app, u.alpha} {
		for scheme, port := range ambientPorts {
			for _, host := range []string{"free.ambient.test", "straight.ambient.test"} {
				c := p.at(world.OutsideAddrs[0])
				c.patience = time.Second
				keepsOn(func(ctx context.Context) {
					if seen, err := c.try(ctx, scheme, host, port, "/"); err == nil {
						mu.Lock()
						through = fmt.Sprintf("%s of %s reached %s as %v", scheme, p.name, host, seen)
						mu.Unlock()
					}
				})
			}
			if quiet {
				c := p.whileOpen(true)
				keepsOn(func(ctx context.Context) {
					_, err := c.try(ctx, scheme, "mesh.ambient.test", port, "/")
					mu.Lock()
					if done++; err != nil {
						failed = append(failed, fmt.Errorf("%s: %s of %s: %w", time.Now().Format(time.StampMilli), scheme, p.name, err))
					}
					mu.Unlock()
				})
			}
		}
	}
	keepsOn(func(ctx context.Context) {
		if status, text, err := u.ask(ctx, "/secret"); err == nil && status == http.StatusOK {
			mu.Lock()
			through = "past the waypoint's policy: " + text
			mu.Unlock()
		}
	})
	err := do()
	if err == nil {
		u.holds(t)
	}
	end()
	work.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if through != "" {
		t.Errorf("what is closed was open: %s", through)
	}
	if quiet {
		t.Logf("%d failed of %d", len(failed), done)
		if len(failed) > 0 {
			t.Error(errors.Join(failed[:min(len(failed), 20)]...))
		}
	}
}
