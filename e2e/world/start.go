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
	stopGrace = time.Minute // an API server finishes what it has begun, which takes a while beside other work
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

// Resident is the process's resident memory (VmRSS of proc(5)), in bytes.
func (p *Process) Resident() (int64, error) { return resident(p.Name, p.PID()) }

func resident(name string, pid int) (int64, error) {
	field := statusField(pid, "VmRSS")
	kib, err := strconv.ParseInt(field, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resident memory of %s: %q: %w", name, field, err)
	}
	return kib << 10, nil
}

// owner is the process's real user id, or -1 when it is gone.
func owner(pid int) int {
	uid, err := strconv.Atoi(statusField(pid, "Uid"))
	if err != nil {
		return -1
	}
	return uid
}

// statusField is the first value of a line of /proc/PID/status, "" when there is none.
func statusField(pid int, name string) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(status)) {
		if values, ok := strings.CutPrefix(line, name+":"); ok {
			if fields := strings.Fields(values); len(fields) > 0 {
				return fields[0]
			}
		}
	}
	return ""
}
