package egressgateway

import (
	"math/rand/v2"
	"net/netip"
	"regexp"
	"testing"
)

// TestDialledRegex holds the expression for a range against what the range contains.
func TestDialledRegex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var b [4]byte
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		p := netip.PrefixFrom(netip.AddrFrom4(b), r.IntN(33)).Masked()
		re := regexp.MustCompile("^(?:" + dialledRegex(p, 5432) + ")$")
		for range 20 {
			at := b // near the range, so that half of them are in it
			at[r.IntN(4)] ^= byte(1 << r.IntN(8))
			ip := netip.AddrFrom4(at)
			if got, want := re.MatchString(netip.AddrPortFrom(ip, 5432).String()), p.Contains(ip); got != want {
				t.Fatalf("%s, %s: %t, want %t (%s)", p, ip, got, want, re)
			}
			if re.MatchString(netip.AddrPortFrom(ip, 5433).String()) {
				t.Fatalf("%s: another port", p)
			}
		}
	}
	one := regexp.MustCompile("^(?:" + dialledRegex(netip.MustParsePrefix("2001:db8::1/128"), 443) + ")$")
	if !one.MatchString("[2001:db8::1]:443") || one.MatchString("[2001:db8::2]:443") {
		t.Error(one)
	}
}
