package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sallyport/sallyport/e2e/story"
)

// What `make test` runs in lanes runs beside each other: each of two targets waits for the other.
func TestLanesRunBesideEachOther(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip(err)
	}
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	more := filepath.Join(dir, "more.mk")
	const targets = `.PHONY: here there
here: ; @touch $(DIR)/here; until [[ -e $(DIR)/there ]]; do sleep 0.05; done
there: ; @touch $(DIR)/there; until [[ -e $(DIR)/here ]]; do sleep 0.05; done
`
	if err := os.WriteFile(more, []byte(targets), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "timeout", "60", "make", "-j", "lanes", "LANES=here there", "DIR="+dir)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "MAKEFILES="+more, "MAKEFLAGS=", "MAKELEVEL=") // each lane's make knows these targets, too
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("one waits for the other's end (%v): %s", err, out)
	}
}
