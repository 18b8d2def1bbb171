package verify

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// reply is what came back for a datagram.
type reply struct {
	data   []byte
	inside bool       // somebody in this network namespace answered
	err    error      // what the kernel says instead
	from   netip.Addr // of an ICMP error: who sent it
}

// side is where a packet that a socket is to hear comes from.
type side int

const (
	anywhere side = iota
	inside        // by the loopback interface
	outside       // by any other
)

// datagram sends one packet to an address and waits for one reply, whatever it is. ICMP errors count, with their sender
// (IP_RECVERR, ip(7)).
func (e *Env) datagram(ctx context.Context, to netip.AddrPort, packet []byte, hears side) reply {
	dialer := net.Dialer{Control: func(network, _ string, raw syscall.RawConn) error { return prepare(network, raw, hears) }}
	c, err := dialer.DialContext(ctx, "udp", to.String())
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	defer stop()
	if err := c.SetDeadline(time.Now().Add(e.Wait)); err != nil {
		return reply{err: err}
	}
	if _, err := c.Write(packet); err != nil {
		return reply{err: err}
	}
	data := make([]byte, 4096)
	n, err := c.Read(data)
	if err != nil {
		return reply{err: err, from: offender(c.(*net.UDPConn))}
	}
	return reply{data: data[:n], inside: hears == inside}
}

// eitherSide sends a packet twice, from a socket that hears what comes from inside and from one that hears the rest. (By
// IP_PKTINFO the two look alike: of what was redirected the kernel names the interface that it was to leave by.)
func (e *Env) eitherSide(ctx context.Context, to netip.AddrPort, packet []byte) reply {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	replies := make(chan reply, 2)
	for _, hears := range []side{inside, outside} {
		go func() { replies <- e.datagram(ctx, to, packet, hears) }()
	}
	first := <-replies
	if first.err == nil {
		return first
	}
	if second := <-replies; second.err == nil || !first.from.IsValid() {
		return second
	}
	return first
}

// prepare makes a socket say who sent an error, and deaf on a side.
func prepare(network string, raw syscall.RawConn, hears side) error {
	level, option := unix.IPPROTO_IP, unix.IP_RECVERR
	if network == "udp6" {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	var err error
	failed := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), level, option, 1)
		if err == nil && hears != anywhere {
			err = hearOnly(int(fd), hears)
		}
	})
	return errors.Join(failed, err)
}

// hearOnly attaches a filter that looks at the interface by which a packet came (socket(7), SO_ATTACH_FILTER).
func hearOnly(fd int, hears side) error {
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	take, drop := bpf.RetConstant{Val: 1 << 16}, bpf.RetConstant{Val: 0}
	if hears == outside {
		take, drop = drop, take
	}
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtInterfaceIndex},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(loopback.Index), SkipFalse: 1},
		take, drop,
	})
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(program))
	for i, p := range program {
		filter[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
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

// judgeDatagram judges a datagram that had no answer.
func (r Result) judgeDatagram(got reply, to netip.Addr, e *Env) Result {
	switch {
	case got.from.IsValid() && got.from == to && !ours(to):
		return r.conclude(Open, "it reached %s, which says itself: %s", to, cause(got.err))
	case got.from.IsValid() && (got.from.IsUnspecified() || ours(got.from)):
		r.Taken = ByRules
		return r.conclude(Closed, "refused by rules in the pod itself: %s", cause(got.err))
	case got.from.IsValid():
		return r.conclude(Closed, "refused by %s, on the way: %s", got.from, cause(got.err))
	case timedOut(got.err), errors.Is(got.err, os.ErrDeadlineExceeded):
		return r.conclude(Unclear, "no answer within %s: dropped on the way, or nobody answers this there", e.Wait)
	}
	return r.judgeDial(got.err, e.Wait)
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
