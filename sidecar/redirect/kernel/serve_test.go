package kernel

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

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
