package datagram

import (
	"net"

	"golang.org/x/sys/unix"
)

// controlSize is enough for one address in a control message.
const controlSize = 64

// askForDestination makes the kernel tell with each datagram which of our addresses it came to. The same control
// message, given back with the answer, makes that address its source.
func askForDestination(conn *net.UDPConn, v4 bool) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	level, option := unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO
	if v4 {
		level, option = unix.IPPROTO_IP, unix.IP_PKTINFO
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, 1) }); err != nil {
		return err
	}
	return failed
}

// freeInterface takes the interface out of the control message: an answer leaves as the routes say, only its
// source is given. See ip(7) and ipv6(7) for in_pktinfo and in6_pktinfo.
func freeInterface(control []byte, v4 bool) {
	at := unix.CmsgLen(0)
	if !v4 {
		at += 16
	}
	if len(control) >= at+4 {
		clear(control[at : at+4])
	}
}
