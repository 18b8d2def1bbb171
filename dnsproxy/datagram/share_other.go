//go:build !linux

package datagram

import (
	"errors"
	"syscall"
)

func share(_, _ string, _ syscall.RawConn) error {
	return errors.New("several sockets on one address: only Linux spreads the clients over them")
}
