package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// server is the program that is measured.
type server struct {
	cmd     *exec.Cmd
	console string
	conn    *grpc.ClientConn
	done    chan error
}

var consoleAt = regexp.MustCompile(`audit server is ready.* console=(\S+)`)

// serve starts it on the log and waits until it is ready.
func serve(ctx context.Context, o options) (*server, error) {
	args := append([]string{"audit", "server", "--data", o.data, "--console-addr", "127.0.0.1:0", "--retention", "0", "--detect-every", "0"}, strings.Fields(o.args)...)
	cmd := exec.Command(o.program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	says, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd, done: make(chan error, 1)}
	ready := make(chan string, 1)
	go func() {
		var last string
		lines := bufio.NewScanner(says)
		for lines.Scan() {
			last = lines.Text()
			if found := consoleAt.FindStringSubmatch(last); found != nil {
				ready <- found[1]
			}
		}
		_, _ = io.Copy(io.Discard, says)
		if err := cmd.Wait(); err != nil {
			s.done <- fmt.Errorf("%w: %s", err, last)
			return
		}
		s.done <- nil
	}()
	select {
	case s.console = <-ready:
	case err := <-s.done:
		return nil, errors.Join(errors.New("the audit server ended"), err)
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), cmd.Process.Kill())
	}
	s.conn, err = grpc.NewClient("unix:"+filepath.Join(o.data, "audit.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	return s, err
}

func (s *server) end() error {
	_ = s.conn.Close()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	return <-s.done
}

// ticks are those of the kernel's accounts, in a second.
const ticks = 100

// cpu is the processor time that it had.
func (s *server) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / ticks
}

// settle waits until it does nothing by itself any more: what it merges when it begins is not what a page takes.
func (s *server) settle(ctx context.Context) error {
	for quiet, before := 0, s.cpu(); quiet < 4; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.done:
			s.done <- err // for end
			return errors.Join(errors.New("the audit server ended"), err)
		case <-time.After(250 * time.Millisecond):
		}
		quiet++
		if now := s.cpu(); now-before > 20*time.Millisecond {
			quiet, before = 0, now
		}
	}
	return nil
}

// resident is how much memory it has, in MiB.
func (s *server) resident() float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, _ := strconv.Atoi(strings.Fields(rest)[0])
	return float64(kib) / 1024
}
