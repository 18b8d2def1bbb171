package supervise

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// child is one run of the binary. err is set when done is closed.
type child struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// start runs the binary in a process group of its own, so that a terminal's Ctrl-C reaches the agent alone, and with
// a parent-death signal. Linux sends that signal when the thread that forked ends (prctl(2)), so one goroutine keeps
// its thread until the child is gone.
func (s *Supervisor) start() (*child, error) {
	out := &lines{to: s.cfg.Output}
	cmd := exec.Command(s.cfg.Path, s.cfg.Args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = s.cfg.KillAfter // a grandchild may hold the pipe
	c := &child{cmd: cmd, done: make(chan struct{})}

	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			s.pid.Store(int64(cmd.Process.Pid))
		}
		started <- err
		if err != nil {
			return
		}
		c.err = cmd.Wait()
		c.kill() // whatever it left in its group
		out.rest()
		s.pid.Store(0)
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", s.cfg.Path, err)
	}
	s.cfg.Log.Info("Envoy started", "pid", cmd.Process.Pid, "binary", s.cfg.Path)
	return c, nil
}

// terminate asks the child to end.
func (c *child) terminate() { _ = syscall.Kill(c.cmd.Process.Pid, syscall.SIGTERM) }

// kill ends the child's whole group. A group that is gone is no error.
func (c *child) kill() { _ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) }
