package scratch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sallyport/sallyport/e2e/leaks"
)

// child is set in a process that makes a folder, says where, and waits.
const child = "SALLYPORT_SCRATCH_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		f, err := New()
		if err == nil {
			err = os.WriteFile(filepath.Join(f.Path, "large"), []byte("x"), 0o600)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(f.Path)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	leaks.Verify(m)
}

// TestKilledProcessesLeaveNothing: a folder is there for as long as its process, whatever others begin, and goes with the next one when that was killed.
func TestKilledProcessesLeaveNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	there := func(path string) bool {
		_, err := os.Stat(filepath.Join(path, "large"))
		return err == nil
	}
	begin := func() *Folder {
		t.Helper()
		f, err := New()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), child+"=1")
	process.Stderr = os.Stderr
	in, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	if !said.Scan() {
		t.Fatal(said.Err())
	}
	others := said.Text()

	own := begin()
	if err := os.WriteFile(filepath.Join(own.Path, "large"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second := begin()
	if !there(others) || !there(own.Path) {
		t.Error("a folder was taken away from who has it")
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait()
	third := begin()
	if there(others) || !there(own.Path) {
		t.Errorf("the folder of who was killed is there: %t, one's own is: %t", there(others), there(own.Path))
	}
	for _, f := range []*Folder{own, second, third} {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}
