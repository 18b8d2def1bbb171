package datagram

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// share lets several sockets be bound to one address (SO_REUSEPORT, socket(7)).
func share(_, _ string, raw syscall.RawConn) error {
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }); err != nil {
		return err
	}
	return failed
}
