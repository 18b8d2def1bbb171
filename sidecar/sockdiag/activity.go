package sockdiag

import (
	"encoding/binary"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Activity is a connection, and how it moves.
type Activity struct {
	Connection
	Quiet    time.Duration // for how long nothing has come and nothing was sent, but for what TCP needs itself
	Received uint64        // bytes that have come, those of TLS among them
	Half     bool          // the other end has said that it sends no more
}

// Activities gives each connection whose other end may send still, or has just said that it sends no more.
func Activities(each func(Activity)) error {
	return dumpWith(1<<established|1<<closeWait, 1<<(infoAttribute-1), func(m []byte, c Connection, state uint8) {
		a := activity(m[answerSize:], c)
		a.Half = state == closeWait
		each(a)
	})
}

// HalfClosed gives each connection by which a program here has said that it sends no more, which it holds still, and whose other end has not said so.
func HalfClosed(each func(Activity)) error {
	return dumpWith(1<<finWait2, 1<<(infoAttribute-1), func(m []byte, c Connection, _ uint8) {
		if inode(m) != 0 { // otherwise it was closed, and is the kernel's
			each(activity(m[answerSize:], c))
		}
	})
}

// infoAttribute is INET_DIAG_INFO in linux/inet_diag.h, whose value is a struct tcp_info.
const infoAttribute = 2

// attributeHead is the size of a struct rtattr, attributes' alignment as well.
const attributeHead = 4

// activity reads the attributes of an answer. A kernel that does not say something leaves it 0.
func activity(attributes []byte, c Connection) Activity {
	a := Activity{Connection: c}
	for len(attributes) >= attributeHead {
		size := int(binary.NativeEndian.Uint16(attributes))
		if size < attributeHead || size > len(attributes) {
			return a
		}
		if binary.NativeEndian.Uint16(attributes[2:]) == infoAttribute {
			info := attributes[attributeHead:size]
			sent := number(info, unsafe.Offsetof(unix.TCPInfo{}.Last_data_sent))
			came := number(info, unsafe.Offsetof(unix.TCPInfo{}.Last_data_recv))
			a.Quiet = time.Duration(min(sent, came)) * time.Millisecond
			if at := unsafe.Offsetof(unix.TCPInfo{}.Bytes_received); int(at)+8 <= len(info) {
				a.Received = binary.NativeEndian.Uint64(info[at:])
			}
			return a
		}
		attributes = attributes[min((size+attributeHead-1)&^(attributeHead-1), len(attributes)):]
	}
	return a
}

func number(info []byte, at uintptr) uint32 {
	if int(at)+4 > len(info) {
		return 0
	}
	return binary.NativeEndian.Uint32(info[at:])
}
