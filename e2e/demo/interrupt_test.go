package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
)

// playEnv makes the test binary play the demo.
const playEnv = "SALLYPORT_DEMO_PLAY"

func TestMain(m *testing.M) {
	if os.Getenv(playEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestInterruptLeavesNothing presses Ctrl-C at several points of the demo: while the scene is being set, and later.
func TestInterruptLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the real programs: not with -short")
	}
	for _, after := range []time.Duration{50 * time.Millisecond, 400 * time.Millisecond, 1500 * time.Millisecond, 5 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			root, err := story.Root()
			if err != nil {
				t.Fatal(err)
			}
			demo := exec.Command(os.Args[0])
			demo.Env = append(os.Environ(), playEnv+"=1", "SALLYPORT_BIN="+binOr(filepath.Join(root, "bin")))
			demo.Dir = root
			var out bytes.Buffer
			demo.Stdout, demo.Stderr = &out, &out
			if err := demo.Start(); err != nil {
				t.Fatal(err)
			}
			// The point in time is what this test varies; it waits for nothing.
			<-time.After(after)
			if err := demo.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := demo.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
				// A signal before the program listens for it ends it as a signal does.
				if exit == nil || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
					t.Errorf("ended with %v, want exit code 130; it printed\n%s", err, out.String())
				}
			}
			if left := leftBehind(demo.Process.Pid); len(left) > 0 {
				t.Errorf("left behind: %s", strings.Join(left, ", "))
			}
		})
	}
}

func binOr(dir string) string {
	if set := os.Getenv("SALLYPORT_BIN"); set != "" {
		return set
	}
	return dir
}

// leftBehind lists files, namespaces and processes of a run.
func leftBehind(pid int) []string {
	runDir := filepath.Join(os.TempDir(), fmt.Sprintf("sallyport-e2e-%d/%d", os.Geteuid(), pid))
	var left []string
	for _, pattern := range []string{fmt.Sprintf("/run/netns/sp-%d-*", pid), fmt.Sprintf("/etc/netns/sp-%d-*", pid), runDir} {
		found, _ := filepath.Glob(pattern)
		left = append(left, found...)
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		call, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && bytes.Contains(call, []byte(runDir+"/")) {
			left = append(left, "process "+e.Name()+" "+string(bytes.ReplaceAll(call, []byte{0}, []byte{' '})))
		}
	}
	return left
}

func TestChooseRefusesUnknownSteps(t *testing.T) {
	if _, err := choose(story.Steps(), "dns,nothing"); err == nil || !strings.Contains(err.Error(), `"nothing"`) {
		t.Errorf("got %v", err)
	}
	chosen, err := choose(story.Steps(), "dns,origination")
	if err != nil || len(chosen) != 2 || chosen[0].ID != "origination" {
		t.Errorf("got %v, %v; want both, in the story's order", chosen, err)
	}
}
