package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reply is what came back for a datagram.
type reply struct {
	data   []byte
	inside bool       // it came in by the loopback interface: somebody in this network namespace answered
	err    error      // what the kernel says instead
	from   netip.Addr // of an ICMP error: who sent it
}

// datagram sends one packet to an address and waits for one reply, whatever it is. ICMP errors count, with their sender
// (IP_RECVERR, ip(7)).
func (e *Env) datagram(ctx context.Context, to netip.AddrPort, packet []byte) reply {
	c, err := (&net.Dialer{Control: watchErrors}).DialContext(ctx, "udp", to.String())
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = c.Close() }()
	udp := c.(*net.UDPConn)
	if err := udp.SetDeadline(time.Now().Add(e.Wait)); err != nil {
		return reply{err: err}
	}
	if _, err := udp.Write(packet); err != nil {
		return reply{err: err}
	}
	data, control := make([]byte, 4096), make([]byte, 512)
	n, oob, _, _, err := udp.ReadMsgUDP(data, control)
	if err != nil {
		return reply{err: err, from: offender(udp)}
	}
	return reply{data: data[:n], inside: byLoopback(control[:oob])}
}

// watchErrors makes a socket say by which interface packets come, and who sent an error.
func watchErrors(network, _ string, raw syscall.RawConn) error {
	var err error
	if e := raw.Control(func(fd uintptr) {
		if network == "udp6" {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1), unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1))
		} else {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1), unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1))
		}
	}); e != nil {
		return e
	}
	return err
}

// byLoopback reads IP_PKTINFO: the interface comes first in IPv4's, last in IPv6's.
func byLoopback(control []byte) bool {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return false
	}
	for _, m := range messages {
		index := -1
		switch {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			index = int(binary.NativeEndian.Uint32(m.Data))
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			index = int(binary.NativeEndian.Uint32(m.Data[16:]))
		default:
			continue
		}
		if link, err := net.InterfaceByIndex(index); err == nil {
			return link.Flags&net.FlagLoopback != 0
		}
	}
	return false
}

// sizeofExtendedErr is that of struct sock_extended_err, which the offender's address follows (ip(7)).
const sizeofExtendedErr = 16

// offender reads from a socket's queue of errors who sent the ICMP message; the zero Addr where nobody did.
func offender(c syscall.Conn) netip.Addr {
	raw, err := c.SyscallConn()
	if err != nil {
		return netip.Addr{}
	}
	var from netip.Addr
	_ = raw.Control(func(fd uintptr) {
		control := make([]byte, 512)
		_, oob, _, _, err := unix.Recvmsg(int(fd), make([]byte, 256), control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			return
		}
		messages, err := unix.ParseSocketControlMessage(control[:oob])
		if err != nil {
			return
		}
		for _, m := range messages {
			if a, ok := offenderIn(m); ok {
				from = a
			}
		}
	})
	return from
}

func offenderIn(m unix.SocketControlMessage) (netip.Addr, bool) {
	switch {
	case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR && len(m.Data) >= sizeofExtendedErr+8:
		return netip.AddrFromSlice(m.Data[sizeofExtendedErr+4 : sizeofExtendedErr+8])
	case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR && len(m.Data) >= sizeofExtendedErr+24:
		return netip.AddrFromSlice(m.Data[sizeofExtendedErr+8 : sizeofExtendedErr+24])
	}
	return netip.Addr{}, false
}

// errored judges a datagram that had no answer.
func (r Result) errored(got reply, to netip.Addr, e *Env) Result {
	switch {
	case got.from.IsValid() && got.from == to && !ours(to):
		return r.is(Open, "it reached %s, which says itself: %s", to, cause(got.err))
	case got.from.IsValid() && (got.from.IsUnspecified() || ours(got.from)):
		return r.is(Closed, "refused by rules in the pod itself: %s", cause(got.err))
	case got.from.IsValid():
		return r.is(Closed, "refused by %s, on the way: %s", got.from, cause(got.err))
	case timedOut(got.err), errors.Is(got.err, os.ErrDeadlineExceeded):
		return r.is(Unclear, "no answer within %s: dropped on the way, or nobody answers this there", e.Wait)
	}
	return r.failed(got.err, e.Wait)
}

// ours says whether an address is this host's.
func ours(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, have := range addrs {
		if prefix, err := netip.ParsePrefix(have.String()); err == nil && prefix.Addr() == a {
			return true
		}
	}
	return false
}
