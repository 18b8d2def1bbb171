package dnsproxy

import (
	"net"

	"golang.org/x/sys/unix"
)

// oobSize is enough for one address in a control message.
const oobSize = 64

// askForDestination makes the kernel tell with each datagram which of our addresses it came to. The same control
// message, given back with the answer, makes that address its source.
func askForDestination(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var v4, v6 error
	if err := raw.Control(func(fd uintptr) {
		v4 = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		v6 = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	}); err != nil {
		return err
	}
	if v4 != nil && v6 != nil {
		return v4
	}
	return nil
}
