package kernel

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/sidecar/redirect"
)

// roleVariable makes this test binary play a part inside a network namespace instead of running tests.
const roleVariable = "SALLYPORT_REDIRECT_ROLE"

// role is what the process is to do, as which user.
type role struct {
	Do       string   // serve, dial, hammer, init or ambient
	UID, GID int      // 0 stays root
	Args     []string // of init
	Serve    []server
	Dials    []dial // one for hammer
}

// dial is one connection to try.
type dial struct {
	Network, Address string
	Local            string // address to dial from, "" for any
	Device           string // interface to bind to, "" for none
}

type server struct {
	Network, Address, Name string
	Transparent            bool
}

func TestMain(m *testing.M) {
	if text := os.Getenv(roleVariable); text != "" {
		var r role
		err := json.Unmarshal([]byte(text), &r)
		if err == nil {
			err = r.play()
		}
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaks.Verify(m)
}

func (r role) play() error {
	switch r.Do {
	case "serve":
		return r.serve()
	case "dial":
		if err := r.become(); err != nil {
			return err
		}
		for _, d := range r.Dials {
			reply, err := d.reply()
			if err != nil {
				reply = "error: " + err.Error()
			}
			fmt.Println(reply)
		}
		return nil
	case "hammer":
		return r.hammer()
	case "init":
		return r.init()
	case "ambient":
		return r.ambient()
	}
	return fmt.Errorf("no role %q", r.Do)
}

// become drops to the role's ids. Sockets belong to whoever makes them, so this comes first, but for transparent ones.
func (r role) become() error {
	if r.GID != 0 {
		if err := syscall.Setgid(r.GID); err != nil {
			return err
		}
	}
	if r.UID != 0 {
		return syscall.Setuid(r.UID)
	}
	return nil
}

// reply sends a line and returns the answer. UDP sockets are connected: an answer from another address does not count.
func (d dial) reply() (string, error) {
	dialer := net.Dialer{Timeout: 3 * time.Second}
	if d.Local != "" {
		local, err := netip.ParseAddrPort(d.Local)
		if err != nil {
			return "", err
		}
		dialer.LocalAddr = net.TCPAddrFromAddrPort(local)
		if d.Network == "udp" {
			dialer.LocalAddr = net.UDPAddrFromAddrPort(local)
		}
	}
	if d.Device != "" {
		dialer.Control = func(_, _ string, c syscall.RawConn) error {
			var bound error
			err := c.Control(func(fd uintptr) { bound = syscall.BindToDevice(int(fd), d.Device) })
			return errors.Join(err, bound)
		}
	}
	c, err := dialer.Dial(d.Network, d.Address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	if d.Network == "udp" {
		if _, err := c.Write([]byte("?")); err != nil {
			return "", err
		}
	}
	buf := make([]byte, 256)
	n, err := c.Read(buf)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(buf[:n])), nil
}

// hammer dials again and again until stdin ends, at most 20,000 times, and prints each different answer once.
func (r role) hammer() error {
	if err := r.become(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	seen := map[string]int{}
	for i := range 20_000 {
		reply, err := r.Dials[0].reply()
		if err != nil {
			reply = "failed: " + err.Error()
		}
		seen[reply]++
		if i == 0 {
			fmt.Println("ready")
		}
		select {
		case <-ended:
		default:
			continue
		}
		break
	}
	out := bufio.NewWriter(os.Stdout)
	for reply, n := range seen {
		fmt.Fprintf(out, "%d times %s\n", n, reply)
	}
	return out.Flush()
}

// init is what the command does, without the command.
func (r role) init() error {
	fs := pflag.NewFlagSet("init", pflag.ContinueOnError)
	settings := redirect.Bind(fs)
	clean := fs.Bool("clean", false, "")
	wait := fs.Duration("wait", 10*time.Second, "")
	if err := fs.Parse(r.Args); err != nil {
		return err
	}
	choice, err := settings.IPv6Choice()
	if err != nil {
		return err
	}
	ipv6, err := UseIPv6(os.DirFS("/proc"), choice)
	if err != nil {
		return err
	}
	o, err := settings.Options(ipv6)
	if err != nil {
		return err
	}
	run := Run{Wait: *wait, Log: slog.New(slog.NewTextHandler(os.Stdout, nil)), Out: os.Stdout}
	d := redirect.Divert{Mark: o.TProxyMark, Table: o.TProxyTable}
	if *clean {
		return Clean(context.Background(), d, run)
	}
	return Apply(context.Background(), redirect.Build(o), d, run)
}
