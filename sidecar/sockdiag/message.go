package sockdiag

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The parts of struct inet_diag_sockid, inet_diag_req_v2 and inet_diag_msg in linux/inet_diag.h: ports and addresses are in the network's order,
// numbers in the machine's.
const (
	idAt        = 8 // in a request: family, protocol, extensions, padding, states
	requestSize = idAt + 48

	attributesAt = 2 // in a request: which are wanted

	answerIDAt = 4 // in an answer: family, state, timer, retransmissions
	answerSize = answerIDAt + 48 + 20

	localPortAt, remotePortAt = 0, 2 // from here on, within the id
	localAt, remoteAt         = 4, 20
	cookieAt                  = 40

	unsentAt = answerIDAt + 48 + 8  // in an answer: when it expires, what is to be read
	inodeAt  = answerIDAt + 48 + 16 // and queues, user
)

// anyCookie asks for a connection whichever it is.
const anyCookie = ^uint64(0)

// The states of a connection in which it may carry bytes, net/tcp_states.h: established, and half or wholly closed but not acknowledged.
const (
	established = 1
	finWait1    = 4
	finWait2    = 5
	closeWait   = 8
	lastAck     = 9
	closing     = 11
	listens     = 10

	open = 1<<established | 1<<finWait1 | 1<<finWait2 | 1<<closeWait | 1<<lastAck | 1<<closing
)

// request is an inet_diag_req_v2 for one connection, or, of invalid addresses, for all of a family, in some states.
func request(family uint8, c Connection, states uint32) []byte {
	b := make([]byte, requestSize)
	b[0], b[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(b[4:], states)
	id := b[idAt:]
	binary.BigEndian.PutUint16(id[localPortAt:], c.Local.Port())
	binary.BigEndian.PutUint16(id[remotePortAt:], c.Remote.Port())
	copy(id[localAt:], c.Local.Addr().AsSlice())
	copy(id[remoteAt:], c.Remote.Addr().AsSlice())
	binary.NativeEndian.PutUint32(id[cookieAt:], uint32(c.Cookie))
	binary.NativeEndian.PutUint32(id[cookieAt+4:], uint32(c.Cookie>>32))
	return b
}

var errAnswer = errors.New("the kernel's answer is too short")

// inode is the number, in an inet_diag_msg, of the file that processes hold the connection by; 0 where none does.
func inode(b []byte) uint32 { return binary.NativeEndian.Uint32(b[inodeAt:]) }

// answer reads an inet_diag_msg.
func answer(b []byte) (c Connection, state uint8, err error) {
	if len(b) < answerSize {
		return c, 0, errAnswer
	}
	id, size := b[answerIDAt:], 4
	if b[0] == unix.AF_INET6 {
		size = 16
	}
	local, _ := netip.AddrFromSlice(id[localAt : localAt+size])
	remote, _ := netip.AddrFromSlice(id[remoteAt : remoteAt+size])
	c.Local = netip.AddrPortFrom(local.Unmap(), binary.BigEndian.Uint16(id[localPortAt:]))
	c.Remote = netip.AddrPortFrom(remote.Unmap(), binary.BigEndian.Uint16(id[remotePortAt:]))
	c.Cookie = uint64(binary.NativeEndian.Uint32(id[cookieAt:])) | uint64(binary.NativeEndian.Uint32(id[cookieAt+4:]))<<32
	return c, b[1], nil
}
