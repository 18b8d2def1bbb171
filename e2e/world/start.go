package world

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	pollPids  = 20 * time.Millisecond
	stopGrace = 15 * time.Second
)

// LogFile is where the output of the program with that name goes.
func (r *Run) LogFile(name string) string { return filepath.Join(r.Dir, "logs", name+".log") }

// Start starts a long-lived program outside the namespaces, under our own user; Close asks it to end.
func (r *Run) Start(name string, argv ...string) (*Process, error) {
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Dir = r.Dir
	p, err := startLogged(name, r.LogFile(name), cmd)
	if err != nil {
		return nil, err
	}
	r.OnClose(func() error { return p.Stop(stopGrace) })
	return p, nil
}

// Command is a command outside the namespaces that ends with its context, and with us.
func (r *Run) Command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = ownSession()
	cmd.Dir = r.Dir
	return cmd
}

// Output runs a command of Host.Command or Run.Command and gives its standard output. The error holds the call and
// what it wrote to standard error.
func Output(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := Await(cmd); err != nil {
		return stdout.Bytes(), fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// Await starts the command, as one that dies with us, and waits for its end.
func Await(cmd *exec.Cmd) error {
	if err := start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// owner is the process's real user id, or -1 when it is gone.
func owner(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			if uid, err := strconv.Atoi(strings.Fields(ids)[0]); err == nil {
				return uid
			}
		}
	}
	return -1
}
