package sockdiag

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Connection is a TCP connection of this network namespace.
type Connection struct {
	Local, Remote netip.AddrPort
	Cookie        uint64 // the kernel's number of it; 0 where it is not known
	Pod           string `json:",omitempty"` // in whose network namespace it is, of an agent's that has several; this package looks into the calling thread's
}

// ErrGone says that there is no such connection: it has ended, or another one has its addresses.
var ErrGone = errors.New("there is no such connection")

// Find completes a connection by its addresses.
func Find(local, remote netip.AddrPort) (Connection, error) {
	asked := Connection{Local: local, Remote: remote, Cookie: anyCookie}
	messages, err := ask(asked)
	if err != nil {
		return Connection{}, err
	}
	if len(messages) == 0 {
		return Connection{}, ErrGone
	}
	found, state, err := answer(messages[0])
	switch {
	case err != nil:
		return Connection{}, err
	case state > closing || 1<<state&open == 0, found.Remote != remote: // a listener is found, where no connection is
		return Connection{}, ErrGone
	}
	return found, nil
}

// Inode is the number of the file that processes hold a connection by (proc_pid_fd(5): "socket:[NUMBER]"); 0 where they have all closed it. Of a connection that has
// ended the error is ErrGone.
func Inode(c Connection) (uint32, error) {
	messages, err := ask(c)
	if err != nil {
		return 0, err
	}
	if len(messages) == 0 {
		return 0, ErrGone
	}
	found, _, err := answer(messages[0])
	switch {
	case err != nil:
		return 0, err
	case found.Cookie != c.Cookie:
		return 0, ErrGone
	}
	return inode(messages[0]), nil
}

// Open gives each open connection.
func Open(each func(Connection)) error { return dump(open, each) }

// Listening gives each port that is listened to. The kernel looks through what listens alone, where /proc/net/tcp has it look through all that its connections, in all
// namespaces, could be in: that is milliseconds, however few there are.
func Listening(each func(port uint16)) error {
	return dump(1<<listens, func(c Connection) { each(c.Local.Port()) })
}

// dump gives each socket that is in one of some states.
func dump(states uint32, each func(Connection)) error {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		if err := dumpRaw(family, states, func(c Connection, _ []byte) { each(c) }); err != nil {
			return err
		}
	}
	return nil
}

// dumpRaw is dump of a family, with what the kernel says of each.
func dumpRaw(family uint8, states uint32, each func(Connection, []byte)) error {
	messages, err := askAbout(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP, request(family, Connection{}, states))
	if err != nil {
		return err
	}
	for _, m := range messages {
		c, _, err := answer(m)
		if err != nil {
			return err
		}
		each(c, m)
	}
	return nil
}

// End resets a connection, whose cookie must be known. Of one that has ended before the error is ErrGone. Others that are there are reset with it, at once: who holds
// them all has no time to end one of them by itself when it sees another's end.
func End(c Connection, with ...Connection) error {
	if err := is(c); err != nil {
		return err
	}
	all := []Connection{c}
	for _, w := range with {
		if is(w) == nil {
			all = append(all, w)
		}
	}
	return destroy(all)
}

// is says why a connection is not, or not any more, the one of its addresses.
func is(c Connection) error {
	if c.Cookie == 0 || c.Cookie == anyCookie {
		return fmt.Errorf("connection of %s with %s: without its cookie another one could be ended", c.Local, c.Remote)
	}
	found, err := Find(c.Local, c.Remote)
	if err == nil && found.Cookie != c.Cookie {
		return ErrGone
	}
	return err
}

// familyOf is that of its addresses. A socket that listens to both has connections of IPv4 under mapped addresses, which are found as IPv4's.
func familyOf(c Connection) uint8 {
	if c.Local.Addr().Unmap().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func ask(c Connection) ([][]byte, error) {
	family := familyOf(c)
	c.Local, c.Remote = unmapped(c.Local), unmapped(c.Remote)
	return askAbout(nl.SOCK_DIAG_BY_FAMILY, 0, request(family, c, open))
}

func askAbout(what, flags int, request []byte) ([][]byte, error) {
	req := nl.NewNetlinkRequest(what, flags)
	req.AddRawData(request)
	messages, err := req.Execute(unix.NETLINK_INET_DIAG, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESTALE):
		return nil, ErrGone
	case err != nil:
		return nil, fmt.Errorf("ask the kernel about TCP connections: %w", err)
	}
	return messages, nil
}

// MayEnd says why this process can end no connection of its network namespace: it has no right to, or the kernel does not know how. A connection of its own is
// ended, over loopback: of one that is not there the kernel says that before it asks for any right.
func MayEnd() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("a connection to try it with: %w", err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return fmt.Errorf("a connection to try it with: %w", err)
	}
	defer func() { _ = c.Close() }()
	own, err := Find(c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort())
	if err == nil {
		err = End(own)
	}
	switch {
	case errors.Is(err, unix.EPERM):
		return errors.New("it needs CAP_NET_ADMIN in the proxy's network namespace")
	case errors.Is(err, unix.EOPNOTSUPP):
		return errors.New("this kernel ends no connections (CONFIG_INET_DIAG_DESTROY)")
	}
	return err
}
