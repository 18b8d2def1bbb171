package e2e

import (
	"errors"
	"testing"

	"github.com/sallyport/sallyport/e2e/story"
)

func TestStoryInNamespaces(t *testing.T) {
	needRoot(t)
	t.Parallel()
	play(t, story.InNamespaces, story.Steps())
}

func TestStoryInAmbient(t *testing.T) {
	needRoot(t)
	t.Parallel()
	play(t, story.InAmbient, story.AmbientSteps())
}

func TestStoryOnLoopback(t *testing.T) {
	t.Parallel()
	play(t, story.OnLoopback, story.Steps())
}

// play tries a whole story; its steps are subtests in the story's order.
func play(t *testing.T, set setting, steps []story.Step) {
	ctx, scene := setScene(t, set)
	for _, step := range steps {
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
