package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// enforced waits until the controller knows of all proxies that a policy (NAMESPACE/NAME) is for that their Envoys have it: what the condition Enforced is
// made from. who says which these are at least.
func enforced(ctx context.Context, t *testing.T, s *story.Scene, policy, who string, counts func(selected int) bool) {
	t.Helper()
	err := world.Within(ctx, time.Minute, func() error {
		text, err := s.Controller.Admin(ctx, "/debug/policies")
		if err != nil {
			return err
		}
		var all map[string]struct{ Selected, Current int }
		if err := json.Unmarshal(text, &all); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		if got := all[policy]; !counts(got.Selected) || got.Current != got.Selected {
			return fmt.Errorf("not by all: %s", text)
		}
		return nil
	})
	if err != nil {
		t.Errorf("%s is enforced by %s: %v", policy, who, err)
	}
}
