package sockdiag

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// destroy ends connections by one message to the kernel, which takes its parts one after the other before anybody else runs. The error is the first one's: the others are ended with
// it if they are there.
func destroy(list []Connection) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return fmt.Errorf("ask the kernel about TCP connections: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	var message []byte
	var first uint32
	for i, c := range list {
		c.Local, c.Remote = unmapped(c.Local), unmapped(c.Remote)
		req := nl.NewNetlinkRequest(nl.SOCK_DESTROY, unix.NLM_F_ACK)
		req.AddRawData(request(familyOf(c), c, open))
		if message = append(message, req.Serialize()...); i == 0 {
			first = req.Seq
		}
	}
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("end a TCP connection: %w", err)
	}
	return acknowledged(fd, first)
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

var errNotSaid = errors.New("the kernel does not say whether a TCP connection was ended")

// acknowledged waits for what the kernel says of one part of a message: all of it is done when the message is sent, so it has said it by then.
func acknowledged(fd int, part uint32) error {
	room := make([]byte, 16<<10)
	for {
		n, _, err := unix.Recvfrom(fd, room, unix.MSG_DONTWAIT)
		if err != nil {
			return errors.Join(errNotSaid, err)
		}
		said, err := syscall.ParseNetlinkMessage(room[:n])
		if err != nil {
			return errors.Join(errNotSaid, err)
		}
		for _, m := range said {
			if m.Header.Type != unix.NLMSG_ERROR || m.Header.Seq != part || len(m.Data) < 4 {
				continue
			}
			switch code := unix.Errno(-int32(nl.NativeEndian().Uint32(m.Data))); code {
			case 0:
				return nil
			case unix.ENOENT, unix.ESTALE:
				return ErrGone
			default:
				return fmt.Errorf("end a TCP connection: %w", code)
			}
		}
	}
}
