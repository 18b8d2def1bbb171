package packet

import (
	"encoding/binary"
	"net/netip"
)

// The extended errors that are told to clients that speak EDNS (RFC 8914 section 4).
const (
	EDENone          uint16 = 0xffff
	EDEStale         uint16 = 3
	EDENotReady      uint16 = 14
	EDEBlocked       uint16 = 15
	EDEFiltered      uint16 = 17
	EDEStaleNXDomain uint16 = 19
	EDENoUpstream    uint16 = 22
)

// namePointer points to the question's name.
const namePointer = 0xc000 | headerLen

// Reply appends the header and the question of an answer with rcode; flags are added to QR, RD and RA.
func (q *Query) Reply(out []byte, rcode int, flags uint16) []byte {
	keep := q.Flags & (FlagRD | FlagCD | opcodeMask)
	out = binary.BigEndian.AppendUint16(out, q.ID)
	out = binary.BigEndian.AppendUint16(out, FlagQR|FlagRA|keep|flags|uint16(rcode&0xf))
	if q.size == 0 {
		return append(out, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	out = append(out, 0, 1, 0, 0, 0, 0, 0, 0)
	out = append(out, q.name...)
	out = binary.BigEndian.AppendUint16(out, q.Type)
	return binary.BigEndian.AppendUint16(out, q.Class)
}

// AppendAddr appends the question's name with an A or AAAA record. msg is where the answer began in out.
func AppendAddr(out []byte, msg int, addr netip.Addr, ttl uint32) []byte {
	if addr.Is4() {
		data := addr.As4()
		return appendRecord(out, msg, 1, ttl, data[:])
	}
	data := addr.As16()
	return appendRecord(out, msg, 28, ttl, data[:])
}

// AppendPTR appends the question's name with a PTR record to target, a name in wire format.
func AppendPTR(out []byte, msg int, target string, ttl uint32) []byte {
	return appendRecord(out, msg, 12, ttl, target)
}

func appendRecord[T string | []byte](out []byte, msg int, kind uint16, ttl uint32, data T) []byte {
	out = binary.BigEndian.AppendUint16(out, namePointer)
	out = binary.BigEndian.AppendUint16(out, kind)
	out = append(out, 0, 1)
	out = binary.BigEndian.AppendUint32(out, ttl)
	out = binary.BigEndian.AppendUint16(out, uint16(len(data)))
	add16(out[msg+6:], 1)
	return append(out, data...)
}

// Finish adds EDNS where the client spoke it, with an extended error unless ede is EDENone, and cuts down to the
// question what is larger than limit bytes. msg is where the answer began in out.
func (q *Query) Finish(out []byte, msg int, rcode int, ede uint16, limit int) []byte {
	opt, said := 0, ""
	if q.EDNS {
		opt = 11
		if ede != EDENone {
			opt += 6
			if len(out)-msg+opt+len(q.Said) <= limit {
				said = q.Said
			}
		}
	}
	if len(out)-msg+opt > limit {
		out = out[:msg+headerLen+q.size+4]
		out[msg+2] |= FlagTC >> 8
		clear(out[msg+6 : msg+headerLen])
	}
	if !q.EDNS {
		return out
	}
	add16(out[msg+10:], 1)
	out = append(out, 0, 0, typeOPT, MaxUDP>>8, MaxUDP&0xff, byte(rcode>>4), 0)
	if q.DO {
		out = append(out, 0x80, 0)
	} else {
		out = append(out, 0, 0)
	}
	if ede == EDENone {
		return append(out, 0, 0)
	}
	out = binary.BigEndian.AppendUint16(out, uint16(6+len(said)))
	out = append(out, 0, typeEDE)
	out = binary.BigEndian.AppendUint16(out, uint16(2+len(said)))
	out = binary.BigEndian.AppendUint16(out, ede)
	return append(out, said...)
}

// typeEDE is the option of extended errors (RFC 8914 section 2).
const typeEDE = 15

func add16(b []byte, n uint16) {
	binary.BigEndian.PutUint16(b, binary.BigEndian.Uint16(b)+n)
}
