//go:build amd64

package ender

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// beTracer makes the test binary a process that begins to trace another one, and stands still in the middle of it.
const beTracer = "SALLYPORT_TEST_TRACER"

// stages are where a tracer stands still. Of changes the thread has some by then, which nobody would take back.
var stages = map[string]struct {
	changed bool
	trace   func(pid int, there func())
}{
	"it stands still": {false, func(pid int, there func()) {
		t := &thread{pid: pid, tid: idleThreads(pid)[0]}
		if err := errors.Join(ptrace(unix.PTRACE_SEIZE, t.tid, 0, unix.PTRACE_O_TRACESYSGOOD), unix.PtraceInterrupt(t.tid)); err != nil {
			panic(err)
		}
		if _, err := t.wait(standstill); err != nil {
			panic(err)
		}
		there()
	}},
	"its own call is held back": {true, within(func(*thread) {})},
	"a call was made": {true, within(func(t *thread) {
		if held, err := t.call(unix.SYS_FCNTL, 1, unix.F_DUPFD_CLOEXEC, 0); err != nil || held == 0 {
			panic(fmt.Sprint(held, err))
		}
	})},
	"a call begins": {true, within(func(t *thread) {
		regs := t.saved
		regs.Rip -= instruction
		regs.Rax, regs.Orig_rax = unix.SYS_GETPID, ^uint64(0)
		if err := errors.Join(unix.PtraceSetRegs(t.tid, &regs), t.step()); err != nil {
			panic(err)
		}
	})},
}

func within(do func(*thread)) func(int, func()) {
	return func(pid int, there func()) {
		panic(throughThread(pid, func(t *thread) error {
			do(t)
			there()
			return nil
		}))
	}
}

// traceAndStay is what such a process does: it says "there", and stays until it is killed.
func traceAndStay(stage string) {
	pid, err := strconv.Atoi(os.Args[len(os.Args)-1])
	if err != nil {
		panic(err)
	}
	stages[stage].trace(pid, func() {
		fmt.Println("there")
		select {}
	})
}

// TestKilledWhileTracing: who traces is killed in between. Either the process is as it was before, or it ends: it never goes on with another call's result, or without its signals.
func TestKilledWhileTracing(t *testing.T) {
	if err := MayTrace(); err != nil {
		t.Skip(err)
	}
	for what, start := range map[string]func(*testing.T) victim{"a program": startProgram, "Envoy": startEnvoy} {
		for name, stage := range stages {
			t.Run(what+": "+name, func(t *testing.T) {
				t.Parallel()
				v := start(t)
				before := v.state(t)
				tracer := exec.Command(os.Args[0], strconv.Itoa(v.process.Process.Pid))
				tracer.Env = append(os.Environ(), beTracer+"="+name)
				tracer.Stderr = os.Stderr
				out, err := tracer.StdoutPipe()
				if err == nil {
					err = tracer.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				said, _ := bufio.NewReader(out).ReadString('\n')
				_ = tracer.Process.Signal(syscall.SIGKILL)
				_ = tracer.Wait()
				if said != "there\n" {
					t.Fatalf("the tracer said %q", said)
				}
				if stage.changed {
					ended := make(chan error, 1)
					go func() { ended <- v.process.Wait() }()
					select {
					case err := <-ended:
						if !strings.Contains(fmt.Sprint(err), "killed") {
							t.Errorf("it ended by %v", err)
						}
					case <-time.After(30 * time.Second):
						t.Errorf("it goes on:\n%v\nbefore:\n%v", v.state(t), before)
					}
					return
				}
				if err := v.works(); err != nil {
					t.Errorf("it serves nobody any more: %v", err)
				}
				for thread, after := range v.state(t) { // a program begins threads when it likes, which nobody traces
					if was, there := before[thread]; there && after != was || strings.Contains(after, "State") || !strings.Contains(after, "TracerPid:\t0\n") {
						t.Errorf("thread %s, before:\n%s\nafter:\n%s", thread, was, after)
					}
				}
			})
		}
	}
}

// victim is a process that somebody traces.
type victim struct {
	process *exec.Cmd
	works   func() error
}

// state is, by threads, the signals that each has blocked, who traces it, and whether it is stopped.
func (v victim) state(t *testing.T) map[string]string {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", v.process.Process.Pid))
	if err != nil || len(threads) == 0 {
		t.Fatal(len(threads), err)
	}
	out := map[string]string{}
	for _, status := range threads {
		text, err := os.ReadFile(status)
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "SigBlk:") || strings.HasPrefix(line, "TracerPid:") || strings.HasPrefix(line, "State:\tT") || strings.HasPrefix(line, "State:\tt") {
				out[filepath.Base(filepath.Dir(status))] += line
			}
		}
	}
	return out
}

func startProgram(t *testing.T) victim {
	c := startEchoes(t)
	conn := c.talk(t)
	return victim{c.process, func() error { return echo(conn) }}
}

// startEnvoy starts one that answers its administration at a socket, where there is a binary.
func startEnvoy(t *testing.T) victim {
	t.Helper()
	binary, err := filepath.Abs("../../../bin/envoy")
	if err == nil {
		_, err = os.Stat(binary)
	}
	if err != nil {
		t.Skip(err)
	}
	folder, err := os.MkdirTemp("", "traced") //nolint:usetesting // a socket's path has room for 107 bytes, and a test's name is in that folder's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket := filepath.Join(folder, "admin.sock")
	process := exec.Command(binary, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error", "--config-yaml", "admin: {address: {pipe: {path: "+socket+"}}}")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = process.Process.Kill(), process.Wait() })
	v := victim{process, func() error { return readyAt(socket) }}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := v.works()
		if err == nil {
			return v
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func readyAt(socket string) error {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprint(c, "GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && !strings.Contains(line, " 200 ") {
		err = errors.New(line)
	}
	return err
}
