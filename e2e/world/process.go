package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// starter starts processes from one thread that never ends. The signal that ends a child when its parent dies
// (PR_SET_PDEATHSIG) comes when the *thread* dies that started it, and Go ends threads as it likes.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go startForever(work)
	return work
})

func startForever(work <-chan func()) {
	runtime.LockOSThread()
	for f := range work {
		f()
	}
}

func start(cmd *exec.Cmd) error {
	result := make(chan error)
	starter() <- func() { result <- cmd.Start() }
	return <-result
}

// Process is a running program. It has its own session, so that a Ctrl-C on the terminal is ours alone to handle,
// and dies with us.
type Process struct {
	Name string
	Log  string // file with what it wrote to stdout and stderr

	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid after done
}

// Launch starts a command that somebody else made, in a session of its own, which dies with us.
func Launch(name, log string, cmd *exec.Cmd) (*Process, error) { return startLogged(name, log, cmd) }

// startLogged starts a command whose output goes, appended, to the log file.
func startLogged(name, log string, cmd *exec.Cmd) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the child has its own copy
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = ownSession()
	if err := start(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &Process{Name: name, Log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// PID is the program's own process id: nothing stands between.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running is nil while the process runs and otherwise says how it ended and where its log is.
func (p *Process) Running() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended (%v), its log is %s", p.Name, endOf(p.err), p.Log)
	default:
		return nil
	}
}

func endOf(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// Kill ends the process with SIGKILL, without notice, and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// Stop asks the process to end (SIGTERM) and kills its session when the grace time passes.
func (p *Process) Stop(grace time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		// The whole process group: the session's leader is the group's too.
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
		<-p.done
		return fmt.Errorf("%s did not end within %s of SIGTERM and was killed, its log is %s", p.Name, grace, p.Log)
	}
}

// StopAll is Stop for all programs of the process's group, as Ctrl-C reaches all that a shell has started.
func (p *Process) StopAll(grace time.Duration) error {
	_ = syscall.Kill(-p.PID(), syscall.SIGTERM)
	return p.Stop(grace)
}

// ExitedCleanly is nil when the process has ended with status 0.
func (p *Process) ExitedCleanly() error {
	<-p.done
	if p.err != nil {
		return fmt.Errorf("%s ended with %w, its log is %s", p.Name, p.err, p.Log)
	}
	return nil
}
