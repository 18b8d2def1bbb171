package packet

import (
	"encoding/binary"
	"net/netip"
)

// Addrs lists the addresses in the answer section of msg, a well-formed response with at most one question.
func Addrs(msg []byte) []netip.Addr {
	if len(msg) < headerLen {
		return nil
	}
	at := headerLen
	if binary.BigEndian.Uint16(msg[4:]) > 0 {
		at += nameLen(msg[at:]) + 4
	}
	var addrs []netip.Addr
	for count := binary.BigEndian.Uint16(msg[6:]); count > 0; count-- {
		if at > len(msg) {
			return addrs
		}
		size := skipName(msg[at:])
		if size == 0 || len(msg) < at+size+10 {
			return addrs
		}
		kind := binary.BigEndian.Uint16(msg[at+size:])
		start := at + size + 10
		at = start + int(binary.BigEndian.Uint16(msg[start-2:]))
		if at > len(msg) {
			return addrs
		}
		if kind != 1 && kind != 28 {
			continue
		}
		if addr, ok := netip.AddrFromSlice(msg[start:at]); ok {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}
