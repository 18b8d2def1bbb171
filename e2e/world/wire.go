package world

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Wire is what crossed an interface: TCP payloads, in the order in which they passed.
type Wire []Payload

// Payload is the data of one TCP segment.
type Payload struct {
	From, To netip.AddrPort
	Data     []byte
}

// Between keeps what two addresses said to each other.
func (w Wire) Between(a, b netip.Addr) Wire {
	var kept Wire
	for _, p := range w {
		from, to := p.From.Addr(), p.To.Addr()
		if (from == a && to == b) || (from == b && to == a) {
			kept = append(kept, p)
		}
	}
	return kept
}

// Size is the number of payload bytes.
func (w Wire) Size() int {
	n := 0
	for _, p := range w {
		n += len(p.Data)
	}
	return n
}

// Contains looks for the text in each direction of each connection, also where segments divide it.
func (w Wire) Contains(text string) bool {
	type direction struct{ from, to netip.AddrPort }
	streams := map[direction][]byte{}
	for _, p := range w {
		d := direction{p.From, p.To}
		streams[d] = append(streams[d], p.Data...)
	}
	for _, data := range streams {
		if bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}

// tcpPayload takes the payload out of an IP packet; ok is false for anything but TCP that carries data. Fragments and
// IPv6 extension headers do not occur on the wires of this package.
func tcpPayload(packet []byte) (p Payload, ok bool) {
	if len(packet) == 0 {
		return p, false
	}
	var from, to netip.Addr
	var segment []byte
	switch packet[0] >> 4 {
	case 4:
		header := int(packet[0]&0x0f) * 4
		if header < 20 || len(packet) < header || packet[9] != unix.IPPROTO_TCP {
			return p, false
		}
		end := min(int(binary.BigEndian.Uint16(packet[2:4])), len(packet))
		if end == 0 { // a segment that the sender left for the network card to divide (GSO) may say 0
			end = len(packet)
		}
		if end < header {
			return p, false
		}
		from, _ = netip.AddrFromSlice(packet[12:16])
		to, _ = netip.AddrFromSlice(packet[16:20])
		segment = packet[header:end]
	case 6:
		if len(packet) < 40 || packet[6] != unix.IPPROTO_TCP {
			return p, false
		}
		from, _ = netip.AddrFromSlice(packet[8:24])
		to, _ = netip.AddrFromSlice(packet[24:40])
		segment = packet[40:]
	default:
		return p, false
	}
	if len(segment) < 20 {
		return p, false
	}
	offset := int(segment[12]>>4) * 4
	if offset < 20 || offset >= len(segment) {
		return p, false
	}
	return Payload{
		From: netip.AddrPortFrom(from, binary.BigEndian.Uint16(segment[0:2])),
		To:   netip.AddrPortFrom(to, binary.BigEndian.Uint16(segment[2:4])),
		Data: segment[offset:],
	}, true
}
