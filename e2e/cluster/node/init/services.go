package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sallyport/sallyport/e2e/cluster/node"
)

const (
	restartAfter = time.Second
	dialEvery    = 50 * time.Millisecond
)

// children are the processes whose end somebody waits for. As the first process, we are given the orphans of others
// too: one loop waits for all.
type children struct {
	mu      sync.Mutex // held while starting, so that no child ends before it is known
	waiting map[int]chan struct{}
	started chan struct{}
}

func newChildren() *children {
	return &children{waiting: map[int]chan struct{}{}, started: make(chan struct{}, 1)}
}

// reap waits for ends of processes, for ever unless the kernel refuses to.
func (c *children) reap() error {
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		switch {
		case errors.Is(err, syscall.ECHILD):
			<-c.started
			continue
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("waiting for processes: %w", err)
		}
		c.mu.Lock()
		if done := c.waiting[pid]; done != nil {
			delete(c.waiting, pid)
			close(done)
		}
		c.mu.Unlock()
	}
}

// start runs a program and gives what is closed at its end.
func (c *children) start(argv, env []string, out *os.File) (<-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir: "/", Env: env, Files: []uintptr{0, out.Fd(), out.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	c.waiting[pid] = done
	select {
	case c.started <- struct{}{}:
	default:
	}
	return done, nil
}

// keep runs the service, again and again.
func keep(s node.Service, logs string, children *children) {
	log := slog.With("service", s.Name)
	for {
		await(s.After)
		out, err := os.OpenFile(filepath.Join(logs, s.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			log.Error("no log", "error", err)
			return
		}
		log.Info("starting")
		done, err := children.start(s.Argv, append(os.Environ(), s.Env...), out)
		_ = out.Close()
		if err != nil {
			log.Error("cannot be started", "error", err)
		} else {
			<-done
			log.Warn("ended, starting again")
		}
		time.Sleep(restartAfter)
	}
}

// await returns when the address, such as "tcp:127.0.0.1:2379", accepts a connection.
func await(address string) {
	network, address, ok := strings.Cut(address, ":")
	for ok {
		if c, err := net.Dial(network, address); err == nil {
			_ = c.Close()
			return
		}
		time.Sleep(dialEvery)
	}
}
