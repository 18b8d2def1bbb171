package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cores are where things run.
const (
	serverCore = "0"
	loaderCore = "1"
)

// userHz is the unit of times in /proc/PID/stat (proc(5)): 100 on every Linux that Go runs on.
const userHz = 100

// process is a server under test. Its output is kept to explain why it ended.
type process struct {
	cmd    *exec.Cmd
	output bytes.Buffer
	ended  chan struct{}
}

// pinned is the command on one core, with the priority that everything that is measured has.
func (b *bench) pinned(ctx context.Context, core string, argv ...string) *exec.Cmd {
	switch {
	case b.realtime:
		argv = append([]string{"chrt", "--fifo", "1"}, argv...)
	case b.nice != 0:
		argv = append([]string{"nice", "-n", strconv.Itoa(b.nice)}, argv...)
	}
	argv = append([]string{"taskset", "-c", core}, argv...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = cmd.Wait(); close(p.ended) }()
	return p, nil
}

// stop ends the process, if need be by force, and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// pause stops the process from running, go lets it run again: only one server at a time shall use the core.
func (p *process) pause()  { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// cpu is the processor time that the process has used, in user mode and in the kernel.
func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(text, []byte(") ")) // the name may hold anything
	fields := strings.Fields(string(rest))
	if len(fields) < 13 {
		return 0, errors.New("/proc/PID/stat has another form than expected")
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / userHz, err
}

// resident is the memory of the process now, in bytes.
func (p *process) resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("/proc/PID/status has no VmRSS")
}
