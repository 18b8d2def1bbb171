package verify

import (
	"net/netip"
	"testing"

	"golang.org/x/net/icmp"
)

// quote is what an ICMP error quotes of a packet: its header, and what begins its body.
func quote(to netip.Addr, protocol byte, body []byte) []byte {
	if to.Is6() {
		header := make([]byte, 40, 40+len(body))
		header[0], header[6] = 6<<4, protocol
		copy(header[24:], to.AsSlice())
		return append(header, body...)
	}
	header := make([]byte, 24, 24+len(body)) // with an option
	header[0], header[9] = 4<<4|6, protocol
	copy(header[16:], to.AsSlice())
	return append(header, body...)
}

// TestAbout: an error is about the ping only where it quotes the ping. Other ways out send to the same address, and what is refused of theirs says
// nothing of it.
func TestAbout(t *testing.T) {
	const udp = 17
	for _, to := range []netip.Addr{netip.MustParseAddr("192.0.2.66"), netip.MustParseAddr("2001:db8::66")} {
		own, err := echo(to, 4711)
		if err != nil {
			t.Fatal(err)
		}
		others, err := echo(to, 4712)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			quoted []byte
			want   bool
		}{
			"the ping":          {quote(to, byte(protocolOf(to)), own), true},
			"a datagram to it":  {quote(to, udp, own), false},
			"another's ping":    {quote(to, byte(protocolOf(to)), others), false},
			"to somewhere else": {quote(to.Next(), byte(protocolOf(to)), own), false},
			"cut off":           {quote(to, byte(protocolOf(to)), own)[:20], false},
			"nothing":           {nil, false},
		} {
			if got := about(c.quoted, to, 4711); got != c.want {
				t.Errorf("%s, %s: %v", to, name, got)
			}
		}
		if m, err := icmp.ParseMessage(protocolOf(to), own); err != nil || m.Body.(*icmp.Echo).ID != 4711 {
			t.Errorf("%s: %v, %v", to, m, err)
		}
	}
}
