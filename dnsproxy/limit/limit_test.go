package limit

import (
	"encoding/base32"
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	b := New[string](Rate{PerSecond: 2, Burst: 3}, 10)
	const a = "a"
	allow := func(now time.Duration, want bool) {
		t.Helper()
		if got := b.Allow(a, now); got != want {
			t.Errorf("at %v: %v", now, got)
		}
	}
	for range 3 {
		allow(0, true)
	}
	allow(0, false)
	allow(400*time.Millisecond, false)
	allow(500*time.Millisecond, true)
	allow(500*time.Millisecond, false)
	if !b.Allow("b", 0) {
		t.Error("clients are not told apart")
	}
	for range 3 {
		allow(time.Hour, true)
	}
	allow(time.Hour, false)
	if none := New[string](Rate{}, 1); none != nil || !none.Allow(a, 0) || none.Clients() != 0 {
		t.Error("without a rate there is a limit")
	}
}

func TestClientsAreBounded(t *testing.T) {
	b := New[netip.Addr](Rate{PerSecond: 1}, 100)
	for i := range 10_000 {
		b.Allow(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 0)
	}
	if b.Clients() != 100 {
		t.Errorf("%d clients are kept", b.Clients())
	}
}

func wire(host string) (out []byte) {
	for label := range strings.SplitSeq(host, ".") {
		out = append(append(out, byte(len(label))), label...)
	}
	return append(out, 0)
}

func TestOddity(t *testing.T) {
	data := make([]byte, 24)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(data)
	for host, want := range map[string]Odd{
		"www.example.com": Usual, "d111111abcdef8.cloudfront.net": Usual, "a-rather-long-name-of-a-service.prod.example.com": Usual,
		"sts.eu-central-1.amazonaws.com": Usual, "external.com.some-namespace.svc.cluster.local": Usual, "": Usual,
		strings.ToLower(base32.StdEncoding.WithPadding(-1).EncodeToString(data)) + ".evil.test": Random,
		hex.EncodeToString(data) + ".evil.test":                                                 Random,
		strings.Repeat("a", 51) + ".test":                                                       Long,
		strings.Repeat("abcdefgh.", 18) + "test":                                                Long,
	} {
		if got := OddityOf(wire(host), 1); got != want {
			t.Errorf("%s is %v, want %v", host, got, want)
		}
	}
	for kind, want := range map[uint16]Odd{1: Usual, 28: Usual, 65: Usual, 33: Usual, 16: Type, 10: Type, 255: Type, 65280: Type} {
		if got := OddityOf(wire("www.example.com"), kind); got != want {
			t.Errorf("type %d is %v, want %v", kind, got, want)
		}
	}
}

func FuzzOddity(f *testing.F) {
	f.Add(wire("www.example.com"), uint16(1))
	f.Fuzz(func(_ *testing.T, name []byte, kind uint16) { _ = OddityOf(name, kind).String() })
}
