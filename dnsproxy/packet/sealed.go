package packet

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Sealed is an answer as it is kept: a packed message without EDNS, and where its TTLs are. It is immutable.
type Sealed struct {
	wire []byte
	ttls []uint16 // offsets
}

// Seal takes a packed response with exactly one question and no OPT record. It keeps wire.
func Seal(wire []byte) (Sealed, error) {
	if len(wire) < headerLen || len(wire) > math.MaxUint16 || binary.BigEndian.Uint16(wire[4:]) != 1 {
		return Sealed{}, fmt.Errorf("seal a response of %d bytes: a header and one question are needed", len(wire))
	}
	size := nameLen(wire[headerLen:])
	if size == 0 || len(wire) < headerLen+size+4 {
		return Sealed{}, fmt.Errorf("seal a response of %d bytes: its question is malformed", len(wire))
	}
	count := int(binary.BigEndian.Uint16(wire[6:])) + int(binary.BigEndian.Uint16(wire[8:])) + int(binary.BigEndian.Uint16(wire[10:]))
	s := Sealed{wire: wire, ttls: make([]uint16, 0, min(count, len(wire)/11))}
	at := headerLen + size + 4
	for ; count > 0; count-- {
		size := skipName(wire[at:])
		if size == 0 || len(wire) < at+size+10 {
			return Sealed{}, fmt.Errorf("seal a response of %d bytes: a record at %d is malformed", len(wire), at)
		}
		s.ttls = append(s.ttls, uint16(at+size+4))
		at += size + 10 + int(binary.BigEndian.Uint16(wire[at+size+8:]))
		if at > len(wire) {
			return Sealed{}, fmt.Errorf("seal a response of %d bytes: a record ends at %d", len(wire), at)
		}
	}
	return s, nil
}

// Rcode is the response code of the answer.
func (s Sealed) Rcode() int { return int(s.wire[3] & 0xf) }

// Wire is the message. It must not be changed.
func (s Sealed) Wire() []byte { return s.wire }

// Size is the memory that it takes, in bytes.
func (s Sealed) Size() int { return cap(s.wire) + 2*cap(s.ttls) }

// Age says how an answer's TTLs are written.
type Age struct {
	Elapsed uint32 // seconds since it was kept; taken off each TTL
	Stale   uint32 // if not 0: the TTL of every record, in seconds
}

// Answer appends s as the answer to q: the id, the bits and the name's case are the question's, the TTLs as age says.
func (s Sealed) Answer(out []byte, q *Query, age Age) []byte {
	msg := len(out)
	out = append(out, s.wire...)
	b := out[msg:]
	binary.BigEndian.PutUint16(b, q.ID)
	flags := binary.BigEndian.Uint16(b[2:])&(FlagAD|0xf) | FlagQR | FlagRA | q.Flags&(FlagRD|FlagCD)
	if !q.DO && q.Flags&FlagAD == 0 {
		flags &^= FlagAD // RFC 6840 section 5.8
	}
	binary.BigEndian.PutUint16(b[2:], flags)
	copy(b[headerLen:], q.name)
	for _, at := range s.ttls {
		ttl := age.Stale
		if ttl == 0 {
			ttl = binary.BigEndian.Uint32(b[at:])
			ttl -= min(ttl, age.Elapsed)
		}
		binary.BigEndian.PutUint32(b[at:], ttl)
	}
	return out
}
