package world

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/sallyport/sallyport/e2e/leaks"
)

// childEnv makes the test binary play a run that gets killed.
const childEnv = "SALLYPORT_WORLD_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		childMain()
		return
	}
	leaks.Verify(m, goleak.IgnoreTopFunction("github.com/sallyport/sallyport/e2e/world.startForever"))
}
