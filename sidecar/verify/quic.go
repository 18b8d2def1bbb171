package verify

import (
	"context"
	"crypto/rand"
	"net/netip"
)

var quicWay = Way{Name: "quic", About: "QUIC, on UDP port 443", Needs: "--target-ip ADDR", Direct: true, try: func(ctx context.Context, e *Env) []Result {
	return each(e.Addrs, func(a netip.Addr) []Result {
		to := netip.AddrPortFrom(a, e.ports.QUIC)
		r := Result{Tried: "QUIC to " + to.String()}
		got := e.datagram(ctx, to, quicProbe(), anywhere)
		if got.err != nil {
			return []Result{r.judgeDatagram(got, a, e)}
		}
		return []Result{r.conclude(Open, "a server answered with %d bytes", len(got.data))}
	})
}}

// quicLeast is how long a client's first datagram is at least, in bytes (RFC 9000, 14.1).
const quicLeast = 1200

// quicProbe is a first packet of a version that no server has, which each answers with the list of its own (RFC 9000, 6).
func quicProbe() []byte {
	packet := make([]byte, quicLeast)
	_, _ = rand.Read(packet)                         // it never fails
	packet[0] |= 0xc0                                // a long header
	copy(packet[1:], []byte{0x1a, 0x2a, 0x3a, 0x4a}) // a version kept for this (RFC 9000, 15)
	packet[5] = 8                                    // bytes of the destination's connection id
	packet[14] = 8                                   // and of the source's
	return packet
}
