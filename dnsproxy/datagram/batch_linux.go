package datagram

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// header is the kernel's struct mmsghdr: see recvmmsg(2).
type header struct {
	unix.Msghdr
	size uint32
}

// Batch reads and answers on one socket. It is for one goroutine.
type Batch struct {
	socket *Socket
	raw    syscall.RawConn
	size   int
	shares bool // it has room only while there is something to answer
	*room

	// The functions are kept, since making them would allocate.
	receive, transmit func(fd uintptr) bool
	read              int // questions
	queued, sent      int // answers
	errno             syscall.Errno
}

// room is what the system calls work on and bring, one each for a datagram. It points into itself.
type room struct {
	in      []header
	inParts []unix.Iovec
	from    []unix.RawSockaddrInet6 // or RawSockaddrInet4, which is shorter
	control [][controlSize]byte
	buffers [][MaxQuestion]byte

	out      []header
	outParts []unix.Iovec
	answers  [][]byte
}

// small is the room of those that have none while they wait: as much of it is there as is used at a time, and what was needed for a moment is given back.
var small = sync.Pool{New: func() any { return newRoom(Small) }}

// NewBatch makes the batch that serves socket, of so many datagrams at a time, for each of which it holds some 5 KB; of Small ones only while there is something to answer.
func NewBatch(socket *Socket, size int) (*Batch, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	b := &Batch{socket: socket, raw: raw, size: size, shares: size == Small}
	if !b.shares {
		b.room = newRoom(size)
		b.reset(size)
	}
	b.receive, b.transmit = b.recvmmsg, b.sendmmsg
	return b, nil
}

func newRoom(size int) *room {
	r := &room{
		in: make([]header, size), inParts: make([]unix.Iovec, size), from: make([]unix.RawSockaddrInet6, size), control: make([][controlSize]byte, size), buffers: make([][MaxQuestion]byte, size),
		out: make([]header, size), outParts: make([]unix.Iovec, size), answers: make([][]byte, size),
	}
	for i := range size {
		r.inParts[i].Base = &r.buffers[i][0]
		r.inParts[i].SetLen(MaxQuestion)
		r.in[i].Iov, r.out[i].Iov = &r.inParts[i], &r.outParts[i]
		r.in[i].SetIovlen(1)
		r.out[i].SetIovlen(1)
		r.in[i].Name = (*byte)(unsafe.Pointer(&r.from[i])) //nolint:gosec // G103: so the kernel wants it
		r.answers[i] = make([]byte, 0, 512)
	}
	return r
}

// Read waits for questions and returns how many there are, at least one. It fails when the socket is closed or its
// read deadline has passed, and as recvmmsg does.
func (b *Batch) Read() (int, error) {
	if b.room != nil {
		b.reset(b.read)
	}
	b.read, b.queued = 0, 0
	if err := b.raw.Read(b.receive); err != nil {
		return 0, err
	}
	if b.errno != 0 {
		return 0, b.errno
	}
	return b.read, nil
}

// reset makes the first places ready again, which the call before has changed.
func (b *Batch) reset(places int) {
	for i := range places {
		b.in[i].Namelen = unix.SizeofSockaddrInet6
		b.in[i].Control = nil
		if b.socket.control > 0 {
			b.in[i].Control = &b.control[i][0]
		}
		b.in[i].SetControllen(b.socket.control)
	}
}

// recvmmsg returns false when there is nothing to read yet.
func (b *Batch) recvmmsg(fd uintptr) bool {
	if b.room == nil {
		b.room = small.Get().(*room)
		b.reset(b.size)
	}
	for {
		n, _, errno := syscall.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.in[0])), uintptr(len(b.in)), unix.MSG_DONTWAIT, 0, 0) //nolint:gosec // G103: likewise
		if b.errno = errno; errno == 0 {
			b.read = int(n)
		}
		if errno == unix.EAGAIN && b.shares {
			small.Put(b.room)
			b.room = nil
		}
		if errno != unix.EINTR {
			return errno != unix.EAGAIN
		}
	}
}

// Question is the one at place i of what Read brought.
func (b *Batch) Question(i int) Question {
	control := b.control[i][:b.in[i].Controllen]
	freeInterface(control, b.socket.v4)
	return Question{Message: b.buffers[i][:b.in[i].size], Client: b.client(i), Control: control}
}

// client reads what the kernel says who sent datagram i.
func (b *Batch) client(i int) netip.AddrPort {
	from := &b.from[i]
	if from.Family == unix.AF_INET {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(from)) //nolint:gosec // G103: likewise
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), hostOrder(v4.Port))
	}
	addr := netip.AddrFrom16(from.Addr)
	if from.Scope_id != 0 {
		addr = addr.WithZone(strconv.FormatUint(uint64(from.Scope_id), 10))
	}
	return netip.AddrPortFrom(addr, hostOrder(from.Port))
}

// hostOrder turns a port as the kernel gives it, in the network's order, into a number.
func hostOrder(port uint16) uint16 {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], port)
	return binary.BigEndian.Uint16(b[:])
}

// Buffer is an empty buffer to append the answer to question i to.
func (b *Batch) Buffer(i int) []byte { return b.answers[i][:0] }

// Answer queues the answer to question i for Flush. It must not be changed before.
func (b *Batch) Answer(i int, answer []byte) {
	if len(answer) == 0 {
		return
	}
	if cap(answer) <= MaxQuestion { // a buffer that has grown stays, but not for ever more
		b.answers[i] = answer
	}
	out, in := &b.out[b.queued], &b.in[i]
	out.Name, out.Namelen = in.Name, in.Namelen
	out.Control, out.Controllen = in.Control, in.Controllen
	part := &b.outParts[b.queued]
	part.Base = &answer[0]
	part.SetLen(len(answer))
	b.queued++
}

// Flush sends what is queued. The error joins those of the answers that could not be sent.
func (b *Batch) Flush() error {
	var failed error
	for b.sent = 0; b.sent < b.queued; {
		if err := b.raw.Write(b.transmit); err != nil {
			b.queued = 0
			return errors.Join(failed, err)
		}
		if b.errno != 0 { // it is the first one's: sendmmsg(2)
			failed = errors.Join(failed, b.errno)
			b.sent++
		}
	}
	b.queued = 0
	return failed
}

// sendmmsg returns false when the socket takes nothing at present.
func (b *Batch) sendmmsg(fd uintptr) bool {
	for {
		n, _, errno := syscall.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&b.out[b.sent])), uintptr(b.queued-b.sent), unix.MSG_DONTWAIT, 0, 0) //nolint:gosec // G103: likewise
		if b.errno = errno; errno == 0 {
			b.sent += int(n)
		}
		if errno != unix.EINTR {
			return errno != unix.EAGAIN
		}
	}
}
