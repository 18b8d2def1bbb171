package world

import (
	"net/netip"
	"testing"
)

// A SYN-less TCP segment 10.0.0.1:1000 → 10.0.0.2:80 with the given payload.
func ipv4Segment(payload string) []byte {
	p := []byte{
		0x45, 0, 0, byte(40 + len(payload)), 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
		0x03, 0xe8, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x18, 0, 0, 0, 0, 0, 0,
	}
	return append(p, payload...)
}

func TestTCPPayload(t *testing.T) {
	got, ok := tcpPayload(ipv4Segment("hello"))
	if !ok || string(got.Data) != "hello" || got.From != netip.MustParseAddrPort("10.0.0.1:1000") || got.To != netip.MustParseAddrPort("10.0.0.2:80") {
		t.Fatalf("got %+v, %v", got, ok)
	}
	padded := append(ipv4Segment("hello"), 0, 0, 0)
	if got, _ := tcpPayload(padded); string(got.Data) != "hello" {
		t.Errorf("padding counted as data: %q", got.Data)
	}
	for name, packet := range map[string][]byte{
		"nothing": nil, "no data": ipv4Segment(""), "cut": ipv4Segment("hello")[:30],
		"udp": func() []byte { p := ipv4Segment("hello"); p[9] = 17; return p }(),
	} {
		if _, ok := tcpPayload(packet); ok {
			t.Errorf("%s: taken for TCP with data", name)
		}
	}
}

func TestWireContains(t *testing.T) {
	a, b := netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:2")
	wire := Wire{{a, b, []byte("sec")}, {b, a, []byte("xx")}, {a, b, []byte("ret")}}
	if !wire.Contains("secret") {
		t.Error("a text divided over two segments is not found")
	}
	if wire.Contains("secxx") {
		t.Error("two directions were taken for one stream")
	}
	if got := wire.Between(a.Addr(), b.Addr()).Size(); got != 8 {
		t.Errorf("size %d, want 8", got)
	}
}

func FuzzTCPPayload(f *testing.F) {
	f.Add(ipv4Segment("hello"))
	f.Add([]byte{0x60})
	f.Fuzz(func(_ *testing.T, packet []byte) { tcpPayload(packet) })
}
