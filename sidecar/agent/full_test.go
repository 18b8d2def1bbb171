package agent

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/durable"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/spool"
	"github.com/sallyport/sallyport/sidecar/relay"
)

// TestRefusesWhatHasNoRoom: the reserve begins it, twice the reserve ends it, and only where the mesh wants it.
func TestRefusesWhatHasNoRoom(t *testing.T) {
	dir := t.TempDir()
	s, err := spool.Open(filepath.Join(dir, "spool"), spool.Limits{MaxBytes: 256 << 10, SegmentBytes: 16 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	f, err := newFullness(slog.New(slog.DiscardHandler), s, filepath.Join(dir, "refusing"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, refusing bool) {
		t.Helper()
		f.look()
		content, err := os.ReadFile(f.file)
		if want := map[bool]string{true: refuseNew, false: refuseNothing}[refusing]; err != nil || string(content) != want || (f.says() != "") != refusing {
			t.Errorf("%s Envoy is told %q, %v, and the kubelet %q", when, content, err, f.says())
		}
	}
	fill := func(room int64) {
		t.Helper()
		for s.Room() > room {
			if err := s.Append(record.Record{Class: record.HTTP, URLPath: strings.Repeat("x", 400)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	free := func(room int64) {
		t.Helper()
		for s.Room() < room {
			batch, err := s.Next(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Ack(batch.Last); err != nil {
				t.Fatal(err)
			}
		}
	}
	reserve := s.Reserve()
	fill(reserve - 1)
	check("full, where records are dropped,", false)
	free(3 * reserve)
	f.want(true)
	fill(reserve + 1000)
	check("with a little more room than the reserve", false)
	fill(reserve - 1)
	check("with less room than the reserve", true)
	free(reserve + 1000)
	check("with a little more room again", true)
	f.want(false)
	check("where records are dropped again", false)
	f.want(true)
	fill(reserve - 1)
	check("full again", true)
	free(2 * reserve)
	check("with room again", false)
}

// TestFullDiskDenies: with whenFull: deny nothing comes through an Envoy whose agent's disk is full, and of all that came through there is a
// record; with drop it goes on.
func TestFullDiskDenies(t *testing.T) {
	p := onSmallDisk(t, name.Defaults{})
	c, ballast, answered, refused := p.controller, p.ballast, p.answered, p.refused
	p.start()
	eventually(t, p.ready)
	eventually(t, answered)

	leave(t, ballast, 64<<10)
	for range 20 {
		if err := answered(); err != nil {
			t.Fatalf("dropping: %v", err)
		}
	}
	c.set(name.TypeURL, map[string]types.Resource{"*": rest(name.Defaults{DenyUnrecorded: true})})
	eventually(t, refused)
	records := filepath.Join(p.cfg.RunDir, "spool")
	eventually(t, func() error { // Envoy tells of what it let through a moment later
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(records)); err != nil {
			return err
		}
		held, err := spool.Open(dir, spool.Limits{})
		if err != nil {
			return err
		}
		defer func() { _ = held.Close() }()
		if had := held.Stats().LastSeq; had < uint64(p.kept) {
			return fmt.Errorf("%d records of %d requests that were answered", had, p.kept)
		}
		return nil
	})
	leave(t, ballast, 0)
	for range 20 {
		if err := refused(); err != nil {
			t.Fatalf("on a full disk: %v", err)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually(t, answered)
	eventually(t, p.ready)
	p.stop()

	if had, lost := p.told(); had < p.kept || lost > 0 {
		t.Errorf("%d records, and %d lost, of %d requests that were answered", had, lost, p.kept)
	}
}

// smallDisk is a pod whose run directory is a small disk.
type smallDisk struct {
	*pod
	controller *controller
	ballast    string
	kept       int // requests that were answered
}

func onSmallDisk(t *testing.T, of name.Defaults) *smallDisk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	c := newController(t)
	dir := runDir(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("no tmpfs can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	p := &smallDisk{pod: newPod(t, c.addr), controller: c, ballast: filepath.Join(dir, "ballast")}
	p.cfg.RunDir, p.cfg.SpoolBytes = dir, 1<<20 // of which an eighth is the reserve
	c.set(relay.ClusterType, map[string]types.Resource{"a": cluster("a", false)})
	listeners := podsListeners(t, p.port)
	listeners[podListeners[0]] = logged(t, listener(t, p.port))
	c.set(relay.ListenerType, listeners)
	c.set(relay.RouteType, map[string]types.Resource{"80": route("one")})
	c.set(name.TypeURL, map[string]types.Resource{"*": rest(of)})
	return p
}

// answered sends a request.
func (p *smallDisk) answered() error {
	err := p.answers("one")()
	if err == nil {
		p.kept++
	}
	return err
}

// refused sends a request that has no room.
func (p *smallDisk) refused() error {
	if err := p.answered(); err == nil {
		return fmt.Errorf("a request came through")
	}
	if err := p.ready(); err == nil || !strings.Contains(err.Error(), "no room for audit records") {
		return fmt.Errorf("the kubelet is told %w", err)
	}
	return nil
}

// told is how many records there are in the end, and how many were lost. Connections that were refused, or ended with Envoy, are no records that were lost.
func (p *smallDisk) told() (had, lost int) {
	p.t.Helper()
	for _, r := range spooled(p.t, filepath.Join(p.cfg.RunDir, "spool")) {
		switch {
		case r.Class != record.Gap:
			had++
		case !strings.HasPrefix(r.Reason, "connections were "):
			lost += int(r.Count)
		}
	}
	return had, lost
}

// restartFull starts the agent again on a full disk, with nobody to ask.
func (p *smallDisk) restartFull() {
	p.t.Helper()
	p.stop()
	leave(p.t, p.ballast, 0)
	p.start()
}

// TestStartsAgainOnAFullDisk: an agent that starts again needs no room, also when its host was started anew: it refuses as before with whenFull: deny, and serves with drop.
func TestStartsAgainOnAFullDisk(t *testing.T) {
	for _, deny := range []bool{true, false} {
		t.Run(map[bool]string{true: "deny", false: "drop"}[deny], func(t *testing.T) {
			p := onSmallDisk(t, name.Defaults{DenyUnrecorded: deny})
			p.start()
			eventually(t, p.ready)
			eventually(t, p.answered)
			p.controller.stop()
			p.stop()
			epoch := filepath.Join(p.cfg.RunDir, "spool", "epoch")
			if err := os.WriteFile(epoch, []byte(`{"epoch":1,"boot":"another"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			is, ready := p.answered, p.ready
			if deny {
				is, ready = p.refused, p.refused
			} else if err := os.Remove(p.cfg.path("scarce")); err != nil {
				t.Fatal(err)
			}
			leave(t, p.ballast, 0)
			before := p.kept
			p.start()
			for range 2 {
				eventually(t, ready)
				for range 20 {
					if err := is(); err != nil {
						t.Fatalf("on a full disk: %v", err)
					}
				}
				p.restartFull()
			}
			eventually(t, ready)
			if deny && p.kept > before {
				t.Errorf("%d requests came through before anything was refused", p.kept-before)
			}
			if err := os.Remove(p.ballast); err != nil {
				t.Fatal(err)
			}
			eventually(t, p.ready)
			eventually(t, p.answered)
			p.stop()
			if had, lost := p.told(); had+lost < p.kept || deny && lost > 0 {
				t.Errorf("%d records, and %d lost, of %d requests that were answered", had, lost, p.kept)
			}
		})
	}
}

// TestTakesOverWhatEnvoyWasTold: the files that Envoy is told by are left on a full disk, and what it refused it refuses until it is known that there is room, or that it need not.
func TestTakesOverWhatEnvoyWasTold(t *testing.T) {
	disk := world.SmallDisk(t, "size=1m")
	s, err := spool.Open(filepath.Join(disk, "spool"), spool.Limits{MaxBytes: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	at := func(name string) string { return filepath.Join(disk, name) }
	var f *fullness
	var p *places
	start := func() {
		t.Helper()
		var err error
		if f, err = newFullness(slog.New(slog.DiscardHandler), s, at("refusing")); err != nil {
			t.Fatal(err)
		}
		if p, err = newPlaces(slog.New(slog.DiscardHandler), at("scarce")); err != nil {
			t.Fatal(err)
		}
		if err := provide(at("envoy.json"), []byte(`{"a": 1}`)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, want map[string]string) {
		t.Helper()
		for file, want := range want {
			if got, err := os.ReadFile(at(file)); err != nil || string(got) != want {
				t.Errorf("%s: %s says %q, %v, want %q", when, file, got, err, want)
			}
		}
	}
	start()
	fresh := map[string]string{"refusing": "0\n", "refusing.other": "1\n", "scarce": "0\n", "envoy.json": `{"a": 1}`}
	check("at first", fresh)
	if err := p.tell(0.5); err != nil {
		t.Fatal(err)
	}
	leave(t, at("ballast"), 0)
	f.want(true)
	refusing := map[string]string{"refusing": "1\n", "refusing.other": "0\n"}
	check("full", refusing)
	start()
	check("after a restart", refusing)
	check("after a restart", map[string]string{"scarce": "0\n"}) // written over
	if f.says() == "" || p.scarce != 0 {
		t.Errorf("it says %q, and %v of all places", f.says(), p.scarce)
	}
	f.want(true)
	check("as the mesh wants it", refusing)
	start()
	f.look() // nobody says that the mesh wants it
	check("as the mesh does not want it", fresh)

	if err := provide(at("envoy.json"), []byte(`{"b":2}`)); err != nil {
		t.Error(err)
	}
	check("another bootstrap", map[string]string{"envoy.json": `{"b":2}`})
	if err := provide(at("more"), []byte("x")); !durable.Full(err) {
		t.Errorf("a file was made on a full disk: %v", err)
	}
	if err := os.Remove(at("scarce")); err != nil {
		t.Fatal(err)
	}
	leave(t, at("ballast"), 0)
	if p, err = newPlaces(slog.New(slog.DiscardHandler), at("scarce")); err != nil || p.scarce != 0 {
		t.Errorf("without a file %v, of %v", err, p)
	}
}

// leave fills a disk with a file until so many bytes are left.
func leave(t *testing.T, file string, left int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var disk syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(file), &disk); err != nil {
		t.Fatal(err)
	}
	n, err := f.Write(make([]byte, max(int64(disk.Bavail)*disk.Bsize-left, 0)))
	if err != nil && left > 0 {
		t.Fatalf("after %d bytes: %v", n, err)
	}
}
