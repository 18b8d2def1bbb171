package e2e

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// sceneLimit is how long setting a scene may take.
const sceneLimit = 2 * time.Minute

// setting builds a scene.
type setting func(context.Context, *world.Run, story.Programs) (*story.Scene, error)

func TestStoryInNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run `make test` as root for this part")
	}
	if err := world.CanNamespace(); err != nil {
		t.Fatal(err)
	}
	play(t, story.InNamespaces)
}

func TestStoryOnLoopback(t *testing.T) { play(t, story.OnLoopback) }

// play tries the whole story; its steps are subtests in the story's order.
func play(t *testing.T, set setting) {
	if testing.Short() {
		t.Skip("the story takes about a minute: not with -short")
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
	for _, step := range story.Steps() {
		t.Run(step.ID, func(t *testing.T) {
			result := scene.Try(ctx, step)
			for _, e := range result.Evidence {
				t.Log(e)
			}
			if errors.Is(result.Err, story.ErrSkipped) {
				t.Skipf("%s: not part of this scene", step.Title)
			}
			if result.Err != nil {
				t.Fatalf("%s: %v", step.Title, result.Err)
			}
		})
	}
}
