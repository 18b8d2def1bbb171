package packet

import (
	"encoding/binary"
	"net/netip"
)

// QuestionName is the owner that is the question's name, for AppendAddrOf.
const QuestionName = headerLen

// AppendCNAME appends the question's name as an alias of target, a name in wire format. owner is what AppendAddrOf
// needs for target's addresses. msg is where the answer began in out.
func AppendCNAME(out []byte, msg int, target []byte, ttl uint32) (extended []byte, owner int) {
	out = appendRecord(out, msg, 5, ttl, target)
	return out, len(out) - len(target) - msg
}

// AppendAddrOf appends an A or AAAA record of the name at owner.
func AppendAddrOf(out []byte, msg, owner int, addr netip.Addr, ttl uint32) []byte {
	start := len(out)
	out = AppendAddr(out, msg, addr, ttl)
	binary.BigEndian.PutUint16(out[start:], uint16(0xc000|owner))
	return out
}
