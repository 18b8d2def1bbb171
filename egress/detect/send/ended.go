package send

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How long the other side of a stream has to end it, too, and how often is looked afterwards whether it has all.
const (
	endsWithin = time.Second
	lookAgain  = 100 * time.Millisecond
)

// ended says that nothing more comes, and waits for the other side to end, so that what was written was read. That it does not end is no error, not all do; but then all has to have
// arrived at its machine: what waits here, since it does not read, would be gone with it.
func ended(conn net.Conn, within time.Duration) error {
	half, can := conn.(interface{ CloseWrite() error })
	if !can {
		return nil
	}
	if err := half.CloseWrite(); err != nil {
		return err
	}
	last := time.Now().Add(within)
	for wait := min(within, endsWithin); ; wait = lookAgain {
		if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
		var one [1]byte
		switch _, err := conn.Read(one[:]); {
		case err == nil || errors.Is(err, io.EOF):
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
		if waits, err := unacknowledged(conn); err != nil || waits == 0 {
			return err
		} else if time.Now().After(last) {
			return fmt.Errorf("it does not read: %d bytes wait to be sent: %w", waits, os.ErrDeadlineExceeded)
		}
	}
}

// unacknowledged is how many bytes of a stream the other side's machine has not got, as far as this one knows.
func unacknowledged(conn net.Conn) (n int, err error) {
	if encrypted, is := conn.(*tls.Conn); is {
		conn = encrypted.NetConn()
	}
	socket, is := conn.(syscall.Conn)
	if !is {
		return 0, nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	if failed := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) }); failed != nil {
		return 0, failed
	}
	return n, err
}
