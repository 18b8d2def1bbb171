package protobuf

import "errors"

// The wire types of https://protobuf.dev/programming-guides/encoding/. A field's tag is its number and its type: NUMBER<<3 | TYPE.
const (
	Varint  = 0
	fixed64 = 1
	Bytes   = 2 // texts, bytes and messages
	fixed32 = 5
)

// ErrMalformed is what is wrong with bytes that are no message.
var ErrMalformed = errors.New("not a protobuf message")

// Fields goes through a message's fields in their order. Texts are parts of the message, not copies.
type Fields struct {
	Tag     uint64
	Uint    uint64 // the value of a Varint
	Text    string // the value of Bytes
	message string
	at      int // of the next field; malformed where there is none
	failed  error
}

const (
	malformed  = -1
	mostNumber = 1<<31 - 1 // of a field, as other readers have it
)

// Scan is before the first field: for f := Scan(m); f.Next(); { switch f.Tag … }.
func Scan(message string) Fields { return Fields{message: message} }

// Fail ends Next with an error, that of a message within; nil does not.
func (f *Fields) Fail(err error) {
	if err != nil {
		f.failed, f.at = err, len(f.message)
	}
}

// Err is ErrMalformed if Next ended before the message did, or what it was made to fail with.
func (f *Fields) Err() error {
	if f.failed != nil {
		return f.failed
	}
	if f.at == malformed {
		return ErrMalformed
	}
	return nil
}

// Next reads one field. Groups, which nobody writes any more, are malformed.
func (f *Fields) Next() bool {
	if uint(f.at) >= uint(len(f.message)) {
		return false
	}
	tag, at := varint(f.message, f.at)
	if tag>>3 == 0 || tag>>3 > mostNumber {
		at = malformed
	}
	switch tag & 7 {
	case Varint:
		f.Uint, at = varint(f.message, at)
	case Bytes:
		var size uint64
		if size, at = varint(f.message, at); at != malformed {
			if size > uint64(len(f.message)-at) {
				at = malformed
				break
			}
			f.Text = f.message[at : at+int(size)]
			at += int(size)
		}
	case fixed64:
		at = skip(f.message, at, 8)
	case fixed32:
		at = skip(f.message, at, 4)
	default:
		at = malformed
	}
	f.Tag, f.at = tag, at
	return at != malformed
}

// varint reads a number of ten bytes at most, and says what comes behind it.
func varint(m string, at int) (n uint64, next int) {
	if uint(at) < uint(len(m)) && m[at] < 0x80 {
		return uint64(m[at]), at + 1
	}
	return longVarint(m, at)
}

func longVarint(m string, at int) (n uint64, next int) {
	if at == malformed {
		return 0, malformed
	}
	for i := 0; i < 10 && at < len(m); i++ {
		b := m[at]
		at++
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			if i == 9 && b > 1 {
				break
			}
			return n, at
		}
	}
	return 0, malformed
}

func skip(m string, at, size int) int {
	if at == malformed || size > len(m)-at {
		return malformed
	}
	return at + size
}
