package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// sceneLimit is how long setting a scene may take, on a machine with much else to do.
const sceneLimit = 5 * time.Minute

// setting builds a scene.
type setting func(context.Context, *world.Run, story.Programs) (*story.Scene, error)

// needRoot skips what needs network namespaces, and fails where root cannot make them.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run `make test` as root for this part")
	}
	if err := world.CanNamespace(); err != nil {
		t.Fatal(err)
	}
}

// part is a step of what is tried in a scene.
type part struct {
	name string
	test func(*testing.T)
}

// inOrder tries parts until one fails, since each builds on those before it.
func inOrder(t *testing.T, parts []part) {
	t.Helper()
	for _, p := range parts {
		if !t.Run(p.name, p.test) {
			return
		}
	}
}

// setScene sets a scene in a run of its own, which ends with the test or when it is interrupted; so does the context.
func setScene(t *testing.T, set setting) (context.Context, *story.Scene) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts the real programs, which takes its time: not with -short")
	}
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	programs, err := story.FindPrograms(root)
	if err != nil {
		t.Fatal(err)
	}
	run, err := world.NewRun()
	if err != nil {
		t.Fatal(err)
	}
	// An interrupted test run must leave nothing behind either.
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			if kept, err := run.SaveLogs(); err == nil {
				t.Logf("the programs' logs: %s", kept)
			}
		}
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
	setting, cancel := context.WithTimeout(ctx, sceneLimit)
	defer cancel()
	scene, err := set(setting, run, programs)
	if err != nil {
		t.Fatalf("setting the scene: %v", err)
	}
	return ctx, scene
}

// recordedOf waits for a record about a host, of what is asked again each time: what was asked before may have been before an edit was in force everywhere.
func recordedOf(ctx context.Context, t *testing.T, s *story.Scene, what, host string, asks func(), fits func(record.Record) bool) {
	t.Helper()
	var last []record.Record
	if err := world.Within(ctx, 2*time.Minute, func() error {
		asks()
		records, err := s.AuditRecords(ctx, "--host", host)
		if last = records; err == nil && !slices.ContainsFunc(records, fits) {
			err = fmt.Errorf("%s: none of %d records", what, len(records))
		}
		return err
	}); err != nil {
		t.Error(err)
		for _, r := range last[max(0, len(last)-20):] {
			t.Logf("%+v", r)
		}
	}
}
