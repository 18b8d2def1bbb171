package kernel

import (
	"bufio"
	"context"
	"encoding/json"
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
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/redirect"
)

// roleVariable makes this test binary play a part inside a network namespace instead of running tests.
const roleVariable = "SALLYPORT_REDIRECT_ROLE"

// role is what the process is to do, as which user.
type role struct {
	Do       string   // serve, dial, hammer or init
	UID, GID int      // 0 stays root
	Args     []string // of init
	Serve    []server
	Network  string // of dial: tcp or udp
	Address  string
	Local    string // address to dial from, "" for any
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
	goleak.VerifyTestMain(m)
}

func (r role) play() error {
	switch r.Do {
	case "serve":
		return r.serve()
	case "dial":
		if err := r.become(); err != nil {
			return err
		}
		reply, err := r.dial()
		if err == nil {
			fmt.Println(reply)
		}
		return err
	case "hammer":
		return r.hammer()
	case "init":
		return r.init()
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

// serve answers on every address until stdin ends. A TCP answer says who was reached and for which destination.
func (r role) serve() error {
	listenTCP := func(s server) error {
		lc := net.ListenConfig{Control: func(network, _ string, c syscall.RawConn) error {
			var err error
			if s.Transparent {
				level, option := unix.SOL_IP, unix.IP_TRANSPARENT
				if network == "tcp6" {
					level, option = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
				}
				_ = c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) })
			}
			return err
		}}
		l, err := lc.Listen(context.Background(), s.Network, s.Address)
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = fmt.Fprintf(c, "%s for %s\n", s.Name, originalDestination(c.(*net.TCPConn)))
				_ = c.Close()
			}
		}()
		return nil
	}
	listenUDP := func(s server) error {
		pc, err := net.ListenPacket(s.Network, s.Address)
		if err != nil {
			return err
		}
		go func() {
			buf := make([]byte, 64)
			for {
				_, from, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = pc.WriteTo([]byte(s.Name), from)
			}
		}()
		return nil
	}
	for _, early := range []bool{true, false} {
		if !early {
			if err := r.become(); err != nil {
				return err
			}
		}
		for _, s := range r.Serve {
			var err error
			switch {
			case s.Transparent != early:
			case strings.HasPrefix(s.Network, "tcp"):
				err = listenTCP(s)
			default:
				err = listenUDP(s)
			}
			if err != nil {
				return err
			}
		}
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// originalDestination asks conntrack where the connection went before it was redirected (SO_ORIGINAL_DST, which is 80 for both
// families). What is not tracked went where it arrived.
func originalDestination(c *net.TCPConn) string {
	const soOriginalDst = 80
	local := c.LocalAddr().(*net.TCPAddr).AddrPort()
	answer := local
	raw, err := c.SyscallConn()
	if err != nil {
		return err.Error()
	}
	_ = raw.Control(func(fd uintptr) {
		if local.Addr().Unmap().Is4() {
			if a, err := unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, soOriginalDst); err == nil { // a sockaddr_in
				b := a.Multiaddr
				answer = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3]))
			}
			return
		}
		if a, err := unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, soOriginalDst); err == nil { // begins with a sockaddr_in6
			answer = netip.AddrPortFrom(netip.AddrFrom16(a.Addr.Addr), a.Addr.Port<<8|a.Addr.Port>>8)
		}
	})
	return answer.String()
}

// dial sends a line and returns the answer. UDP sockets are connected: an answer from another address does not count.
func (r role) dial() (string, error) {
	d := net.Dialer{Timeout: 3 * time.Second}
	if r.Local != "" {
		local, err := netip.ParseAddrPort(r.Local)
		if err != nil {
			return "", err
		}
		d.LocalAddr = net.TCPAddrFromAddrPort(local)
		if strings.HasPrefix(r.Network, "udp") {
			d.LocalAddr = net.UDPAddrFromAddrPort(local)
		}
	}
	c, err := d.Dial(r.Network, r.Address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	if strings.HasPrefix(r.Network, "udp") {
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
		reply, err := r.dial()
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
