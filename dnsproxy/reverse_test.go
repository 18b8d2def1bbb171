package dnsproxy

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/packet"
)

func TestReversed(t *testing.T) {
	for host, want := range map[string]string{"1.2.3.10.in-addr.arpa": "10.3.2.1", reverse(t, "fd00::1"): "fd00::1"} {
		if got, ok := reversed(packet.AppendName(nil, host)); !ok || got != netip.MustParseAddr(want) {
			t.Errorf("%s: %v, %v, want %s", host, got, ok, want)
		}
	}
	for _, host := range []string{
		"", "in-addr.arpa", "x.2.3.10.in-addr.arpa", "ip6.arpa", "1.in-addr.arpa", "3.2.1.in-addr.arpa", "5.4.3.2.1.in-addr.arpa", "256.0.0.1.in-addr.arpa", "01.0.0.1.in-addr.arpa", "1000.0.0.1.in-addr.arpa",
		"a.0.0.1.in-addr.arpa", "1.0.240.240.in-addr.arpa.test", "1.0.240.240in-addr.arpa", "1.0.0.2.ip6.arpa", "g." + reverse(t, "2001:2::1")[2:], "10." + reverse(t, "2001:2::1")[2:], "0." + reverse(t, "2001:2::1"),
	} {
		if addr, ok := reversed(packet.AppendName(nil, host)); ok {
			t.Errorf("%s is %s", host, addr)
		}
	}
}

// FuzzReversed: an address's reverse name stands for it, and a name that stands for an address is its reverse name.
func FuzzReversed(f *testing.F) {
	for _, addr := range []string{"0.0.0.0", "240.240.1.99", "255.255.255.255", "2001:2::1", "::", "::ffff:10.0.0.1", "fe80::a:b"} {
		f.Add(packet.AppendName(nil, reverse(f, addr)))
	}
	f.Add([]byte{0})
	f.Add([]byte("\x031.0\x07in-addr\x04arpa\x00"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		addr, ok := reversed(wire)
		if !ok {
			return
		}
		if want := packet.AppendName(nil, reverse(t, addr.String())); string(want) != string(wire) {
			t.Errorf("%q stands for %s, whose reverse name is %q", wire, addr, want)
		}
	})
}

// reverse is an address's reverse name as miekg/dns has it.
func reverse(t testing.TB, addr string) string {
	t.Helper()
	name, err := dns.ReverseAddr(addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := netip.ParseAddr(addr); err != nil {
		t.Fatal(err)
	}
	return name
}
