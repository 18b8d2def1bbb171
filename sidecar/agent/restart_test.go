package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/durable"
	"github.com/sallyport/sallyport/egress/audit/spool"
)

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
			if had, lost := p.told(); had+lost < p.kept {
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
