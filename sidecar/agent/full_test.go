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
