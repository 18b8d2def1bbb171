package packet

import (
	"encoding/binary"
	"errors"
)

// Header bits of the second 16-bit word.
const (
	FlagQR = 1 << 15 // it is a response
	FlagAA = 1 << 10
	FlagTC = 1 << 9 // cut off, ask again by TCP
	FlagRD = 1 << 8
	FlagRA = 1 << 7
	FlagAD = 1 << 5 // authenticated (RFC 4035)
	FlagCD = 1 << 4 // do not check (RFC 4035)
)

const (
	headerLen  = 12
	opcodeMask = 0xf << 11
	typeOPT    = 41
)

// MaxUDP is the most that is sent in one datagram: it travels unfragmented nearly everywhere (DNS flag day 2020).
const MaxUDP = 1232

// Why a message gets no proper answer.
var (
	ErrIgnore         = errors.New("not a question: too short or a response")
	ErrFormat         = errors.New("malformed question")
	ErrNotImplemented = errors.New("unsupported operation")
	ErrVersion        = errors.New("unsupported EDNS version")
)

// Query is one question. It points into the message that it was read from and is only good as long as that.
type Query struct {
	ID, Flags   uint16
	Type, Class uint16
	EDNS, DO    bool
	UDPSize     uint16 // what the client can take, as it says
	Said        string // what the answer's extended error says in words (EXTRA-TEXT); it is left out where there is no room

	name []byte            // as asked, in wire format
	key  [maxName + 6]byte // see Key
	size int               // of the name
}

// Name is the name in wire format with the case that the client used.
func (q *Query) Name() []byte { return q.name }

// Lower is the name in lower-case wire format.
func (q *Query) Lower() []byte { return q.key[2 : 2+q.size] }

// Key identifies the answer: the view, the bits that change it (DO, CD), the name, type and class.
func (q *Query) Key(view byte) []byte {
	q.key[0] = view
	return q.key[:q.size+6]
}

// CD tells whether the client wants to see answers that fail validation.
func (q *Query) CD() bool { return q.Flags&FlagCD != 0 }

// Parse reads the question in msg. With ErrFormat and the errors after it q is good enough for Reply.
func (q *Query) Parse(msg []byte) error {
	*q = Query{}
	if len(msg) < headerLen {
		return ErrIgnore
	}
	q.ID = binary.BigEndian.Uint16(msg)
	q.Flags = binary.BigEndian.Uint16(msg[2:])
	if q.Flags&FlagQR != 0 {
		return ErrIgnore
	}
	if q.Flags&opcodeMask != 0 {
		return ErrNotImplemented
	}
	if binary.BigEndian.Uint16(msg[4:]) != 1 || binary.BigEndian.Uint32(msg[6:]) != 0 {
		return ErrFormat // one question, nothing answered (RFC 9619)
	}
	rest := msg[headerLen:]
	size := nameLen(rest)
	if size == 0 || len(rest) < size+4 {
		return ErrFormat
	}
	q.name, q.size = rest[:size], size
	q.Type = binary.BigEndian.Uint16(rest[size:])
	q.Class = binary.BigEndian.Uint16(rest[size+2:])
	err := q.parseAdditional(rest[size+4:], int(binary.BigEndian.Uint16(msg[10:])))
	q.fillKey()
	return err
}

func (q *Query) fillKey() {
	AppendLower(q.key[:2], q.name)
	copy(q.key[2+q.size:], []byte{byte(q.Type >> 8), byte(q.Type), byte(q.Class >> 8), byte(q.Class)})
	if q.DO {
		q.key[1] |= 1
	}
	if q.CD() {
		q.key[1] |= 2
	}
}

// parseAdditional looks for EDNS (RFC 6891 section 6.1) among count records.
func (q *Query) parseAdditional(b []byte, count int) error {
	for ; count > 0; count-- {
		size := skipName(b)
		if size == 0 || len(b) < size+10 {
			return ErrFormat
		}
		fixed := b[size : size+10]
		data := int(binary.BigEndian.Uint16(fixed[8:]))
		if len(b) < size+10+data {
			return ErrFormat
		}
		b = b[size+10+data:]
		if binary.BigEndian.Uint16(fixed) != typeOPT {
			continue
		}
		if q.EDNS || size != 1 {
			return ErrFormat
		}
		q.EDNS = true
		q.UDPSize = binary.BigEndian.Uint16(fixed[2:])
		q.DO = fixed[6]&0x80 != 0
		if fixed[5] != 0 {
			return ErrVersion
		}
	}
	return nil
}

// Limit is the largest answer that may be sent, in bytes.
func (q *Query) Limit(tcp bool) int {
	switch {
	case tcp:
		return 65535
	case q.EDNS:
		return int(min(max(q.UDPSize, 512), MaxUDP))
	default:
		return 512
	}
}
