package packet

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Sealed is an answer as it is kept: a packed message without EDNS, and where its TTLs are. It is immutable.
//
// All of it is one string, so that it is one object for the garbage collector: the message, the offsets of its TTLs
// and their number, two bytes each, the high one first.
type Sealed struct{ data string }

// Seal takes a packed response with exactly one question and no OPT record. It copies wire.
func Seal(wire []byte) (Sealed, error) {
	if len(wire) < headerLen || len(wire) > math.MaxUint16 || binary.BigEndian.Uint16(wire[4:]) != 1 {
		return Sealed{}, fmt.Errorf("seal a response of %d bytes: a header and one question are needed", len(wire))
	}
	size := nameLen(wire[headerLen:])
	if size == 0 || len(wire) < headerLen+size+4 {
		return Sealed{}, fmt.Errorf("seal a response of %d bytes: its question is malformed", len(wire))
	}
	count := int(binary.BigEndian.Uint16(wire[6:])) + int(binary.BigEndian.Uint16(wire[8:])) + int(binary.BigEndian.Uint16(wire[10:]))
	data := make([]byte, 0, len(wire)+2*min(count, len(wire)/11)+2)
	data = append(data, wire...)
	at := headerLen + size + 4
	for ; count > 0; count-- {
		size := skipName(wire[at:])
		if size == 0 || len(wire) < at+size+10 {
			return Sealed{}, fmt.Errorf("seal a response of %d bytes: a record at %d is malformed", len(wire), at)
		}
		data = binary.BigEndian.AppendUint16(data, uint16(at+size+4))
		at += size + 10 + int(binary.BigEndian.Uint16(wire[at+size+8:]))
		if at > len(wire) {
			return Sealed{}, fmt.Errorf("seal a response of %d bytes: a record ends at %d", len(wire), at)
		}
	}
	data = binary.BigEndian.AppendUint16(data, uint16((len(data)-len(wire))/2))
	return Sealed{data: string(data)}, nil
}

// at16 is the number in the two bytes at i.
func (s Sealed) at16(i int) int { return int(s.data[i])<<8 | int(s.data[i+1]) }

// size is the length of the message in bytes; the offsets of the TTLs begin there.
func (s Sealed) size() int {
	end := len(s.data) - 2
	return end - 2*s.at16(end)
}

// Rcode is the response code of the answer.
func (s Sealed) Rcode() int { return int(s.data[3] & 0xf) }

// Answers tells whether s was sealed with this question: a whole name, type and class in wire format.
func (s Sealed) Answers(question []byte) bool {
	return len(s.data) > headerLen+len(question) && s.data[headerLen:headerLen+len(question)] == string(question)
}

// Question is what s was sealed with: name, type and class in wire format.
func (s Sealed) Question() string {
	at := headerLen
	for s.data[at] != 0 {
		at += 1 + int(s.data[at])
	}
	return s.data[headerLen : at+5]
}

// Bytes is the memory that s takes.
func (s Sealed) Bytes() int { return len(s.data) }

// Age says how an answer's TTLs are written.
type Age struct {
	Elapsed uint32 // seconds since it was kept; taken off each TTL
	Stale   uint32 // if not 0: the TTL of every record, in seconds
	Most    uint32 // if not 0: longer TTLs are cut to it, in seconds
}

// Answer appends s as the answer to q: the id, the bits and the name's case are the question's, the TTLs as age says.
func (s Sealed) Answer(out []byte, q *Query, age Age) []byte {
	msg, size := len(out), s.size()
	out = append(out, s.data[:size]...)
	b := out[msg:]
	binary.BigEndian.PutUint16(b, q.ID)
	flags := binary.BigEndian.Uint16(b[2:])&(FlagAD|0xf) | FlagQR | FlagRA | q.Flags&(FlagRD|FlagCD)
	if !q.DO && q.Flags&FlagAD == 0 {
		flags &^= FlagAD // RFC 6840 section 5.8
	}
	binary.BigEndian.PutUint16(b[2:], flags)
	copy(b[headerLen:], q.name)
	for i := size; i < len(s.data)-2; i += 2 {
		at := s.at16(i)
		ttl := age.Stale
		if ttl == 0 {
			ttl = binary.BigEndian.Uint32(b[at:])
			ttl -= min(ttl, age.Elapsed)
		}
		if age.Most > 0 {
			ttl = min(ttl, age.Most)
		}
		binary.BigEndian.PutUint32(b[at:], ttl)
	}
	return out
}
