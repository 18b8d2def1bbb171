package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// upFlood is a server that sends without end; its connections' ends are told.
type upFlood struct {
	port  int
	sent  atomic.Int64
	ended chan error
}

func newUpFlood(t *testing.T, http bool) *upFlood {
	f := &upFlood{ended: make(chan error, 1)}
	f.port = upEcho(t, func(c net.Conn) io.ReadWriteCloser {
		if http {
			if _, err := c.Read(make([]byte, 4096)); err != nil {
				return nil
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n")
		}
		for piece := make([]byte, 64<<10); ; {
			n, err := c.Write(piece)
			f.sent.Add(int64(n))
			if err != nil {
				f.ended <- err
				return nil
			}
		}
	})
	return f
}

// upStalled reads nothing. Its kernel knows whether it was reset all the same.
func upStalled(c net.Conn) (state uint8, err error) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var info *unix.TCPInfo
	var failed error
	if err = raw.Control(func(fd uintptr) { info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); err != nil || failed != nil {
		return 0, fmt.Errorf("%w %w", err, failed)
	}
	return info.State, nil
}

// TestUpEndsWhatNobodyReads: a download whose client reads nothing ends as others do: its server's connection, and its client's, by a reset.
func TestUpEndsWhatNobodyReads(t *testing.T) {
	programs := upPrograms(t)
	dir := programs.dir(t)
	write := upWriter(t, dir)
	plain, web := newUpFlood(t, false), newUpFlood(t, true)
	write("one.yaml", upEntry("one", "one.test", "DNS", fmt.Sprintf("[{number: %d, name: tcp, protocol: TCP}, {number: %d, name: http, protocol: HTTP}]", plain.port, web.port)))
	write("policy.yaml", "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: list, namespace: default}\nspec: {rules: [{hosts: [one.test], action: Allow}]}\n")
	data := filepath.Join(programs.dir(t), "data")
	up := programs.start(t, "up", dir, "--data", data, "--proxy-addr", "127.0.0.1:0", "--console-addr", "", "--dns-server", upNameServer(t, map[string]string{"one.test.": "127.0.0.1"}))
	up.says(t, "sallyport: ready")
	proxy := up.proxy(t)
	open := func(ask string) net.Conn {
		t.Helper()
		var c net.Conn
		upEventually(t, ask, func() (err error) {
			if c, err = net.Dial("tcp", proxy); err != nil {
				return err
			}
			_ = c.(*net.TCPConn).SetReadBuffer(16 << 10)
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			if _, err = io.WriteString(c, ask); err != nil {
				return err
			}
			resp, err := http.ReadResponse(bufio.NewReaderSize(c, 16), &http.Request{Method: strings.Fields(ask)[0]})
			if err == nil && resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s", resp.Status)
			}
			if err != nil {
				_ = c.Close()
			}
			return err
		})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	clients := map[string]net.Conn{
		"tunnel":  open(fmt.Sprintf("CONNECT one.test:%d HTTP/1.1\r\nHost: one.test:%[1]d\r\n\r\n", plain.port)),
		"request": open(fmt.Sprintf("GET http://one.test:%d/file HTTP/1.1\r\nHost: one.test:%[1]d\r\n\r\n", web.port)),
	}
	servers := map[string]*upFlood{"tunnel": plain, "request": web}
	for what, f := range servers {
		was := int64(-1)
		upEventually(t, what+" stalls", func() error {
			now := f.sent.Load()
			if now == 0 || now != was {
				was = now
				return fmt.Errorf("%d bytes are sent", now)
			}
			return nil
		})
	}
	since := time.Now()
	write("policy.yaml", "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: list, namespace: default}\nspec: {rules: [{hosts: [one.test], action: Deny, reason: closed}]}\n")
	for what, f := range servers {
		select {
		case err := <-f.ended:
			t.Logf("the server of the %s sees its end after %s: %v", what, time.Since(since).Round(time.Millisecond), err)
		case <-time.After(2 * time.Minute): // without an end of its own it would be five
			t.Errorf("the server of the %s still sends", what)
		}
	}
	for what, c := range clients {
		upEventually(t, "the end of the "+what, func() error {
			state, err := upStalled(c)
			if err == nil && state != unix.BPF_TCP_CLOSE {
				err = fmt.Errorf("the client's connection is in state %d", state)
			}
			return err
		})
		t.Logf("the client of the %s sees its end after %s", what, time.Since(since).Round(time.Millisecond))
	}
	upEventually(t, "the records", func() error {
		out, err := programs.run(t, "audit", "query", "--data", data, "--host", "one.test", "-o", "json")
		if n := strings.Count(out, "ended when it was not allowed any more: denied by EgressPolicy default/list"); err != nil || n != 2 {
			return fmt.Errorf("want 2 that were ended, are %d: %s %w", n, out, err)
		}
		return nil
	})
	if err := up.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v", err)
	}
}
