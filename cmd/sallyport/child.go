package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config/mesh"
)

// child is a process of ours that is started again when it ends. It cannot outlive this one.
type child struct {
	name   string
	log    *slog.Logger
	file   string
	args   []string
	output io.Writer
}

// Waits between starts of a child that keeps ending.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 10 * time.Second
	// endWithin is how long a child may take to end when it is told to.
	endWithin = 20 * time.Second
	// childUsage is how a child says that its call was wrong, so that starting it again is no use. A crash says 2.
	childUsage = 64
)

// keep runs the child until ctx ends; then it is told to end, and waited for.
func (c *child) keep(ctx context.Context) error {
	pause := firstPause
	for {
		began := time.Now()
		err := c.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var wrong *exec.ExitError
		if errors.As(err, &wrong) && wrong.ExitCode() == childUsage {
			return fmt.Errorf("%s cannot run: see its message above", c.name)
		}
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		c.log.Error("a process ended and is started again", "process", c.name, "error", err, "in", pause.String())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

func (c *child) once(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, c.file, c.args...)
	cmd.Stdout, cmd.Stderr = c.output, c.output
	cmd.Env = append(os.Environ(), program.UsageEnv+"="+strconv.Itoa(childUsage))
	// a group of its own: Ctrl-C reaches this process, which tells the child in its own time
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endWithin
	return cmd.Run()
}

// auditServer is the process that keeps the audit records of a data directory.
func auditServer(log *slog.Logger, data, console string, retention time.Duration, more ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"audit", "server", "--data", data, "--retention", retention.String(), "--console-addr", console}
	args = append(args, more...)
	return &child{name: "audit server", log: log, file: self, args: args, output: os.Stderr}, nil
}

// keepRecords is for how long the audit server keeps records: as the flag says, and where it is not given, as the mesh
// settings do.
func keepRecords(flags *pflag.FlagSet, name string, flag time.Duration, meshConfig string) (time.Duration, error) {
	if flags.Changed(name) || meshConfig == "" {
		return flag, nil
	}
	settings, err := mesh.Load(meshConfig)
	if err != nil {
		return 0, program.Misuse(err)
	}
	if settings.Audit.Written {
		return settings.Audit.Retention, nil
	}
	return flag, nil
}

// beside finds a program: as given, next to this one, or on the PATH.
func beside(flag, given, name string) (string, error) {
	if given != "" {
		if _, err := os.Stat(given); err != nil {
			return "", program.Misuse(fmt.Errorf("%s %q: there is no such file", flag, given))
		}
		return filepath.Abs(given)
	}
	if self, err := os.Executable(); err == nil {
		if file := filepath.Join(filepath.Dir(self), name); exists(file) {
			return file, nil
		}
	}
	file, err := exec.LookPath(name)
	if err != nil {
		return "", program.Misuse(fmt.Errorf("%s is neither beside this program nor on the PATH: name it with %s FILE", name, flag))
	}
	return filepath.Abs(file)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
