package inside

import (
	"net/netip"
	"testing"
)

func TestIs(t *testing.T) {
	for addr, want := range map[string]bool{
		"10.1.2.3": true, "172.16.0.1": true, "172.31.255.255": true, "192.168.1.1": true, // private
		"127.0.0.1": true, "127.8.8.8": true, "::1": true, // loopback
		"169.254.169.254": true, "fe80::1": true, "fe80::1%eth0": true, // link-local, metadata
		"fd00:ec2::254": true, "100.100.100.200": true, "168.63.129.16": true, "192.0.0.192": true, // metadata
		"0.0.0.0": true, "::": true, "0.1.2.3": true, // unspecified
		"224.0.0.1": true, "ff02::1": true, "255.255.255.255": true, // multicast, broadcast
		"fc00::1": true, "240.240.0.1": true, "2001:2::1": true, // unique local, virtual
		"::ffff:10.0.0.1": true, "::ffff:169.254.169.254": true, "::10.0.0.1": true, // mapped, compatible
		"64:ff9b::10.0.0.1": true, "64:ff9b::a9fe:a9fe": true, "64:ff9b:1::808:808": true, // NAT64
		"2002:a00:1::1": true, "2002:7f00:1::": true, "::ffff:0:10.0.0.1": true, // 6to4, translated
		"2001:0:4136:e378:8000:63bf:f5ff:fffe": true,                                             // Teredo of 10.0.0.1
		"2001:db8::5efe:10.0.0.1":              true, "2001:db8::200:5efe:169.254.169.254": true, // ISATAP
		"192.88.99.1": true,
		"1.1.1.1":     false, "8.8.8.8": false, "172.32.0.1": false, "11.0.0.1": false, "100.128.0.1": false,
		"2606:4700::1111": false, "64:ff9b::808:808": false, "::ffff:8.8.8.8": false, "2002:808:808::1": false,
	} {
		if got := Is(netip.MustParseAddr(addr)); got != want {
			t.Errorf("Is(%s) = %v, want %v", addr, got, want)
		}
	}
	if !Is(netip.Addr{}) {
		t.Error("no address at all is let through")
	}
}

func TestNoEndpoint(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1": true, "0.0.0.0": true, "169.254.169.254": true, "168.63.129.16": true, "192.0.0.192": true, "fd00:ec2::254": true, "fe80::1": true, "224.0.0.1": true, "ff02::1": true,
		"::ffff:169.254.169.254": true, "64:ff9b::a9fe:a9fe": true, "2002:a83f:8110::": true, "64:ff9b::7f00:1": true,
		"10.0.0.1": false, "100.100.100.200": false, "fd00::1": false, "fd00:ec2:0:1::254": false, "203.0.113.1": false, "64:ff9b::a4d:1e": false,
	} {
		if got := NoEndpoint(netip.MustParseAddr(addr)); got != want {
			t.Errorf("NoEndpoint(%s) = %v, want %v", addr, got, want)
		}
	}
}

func TestOwnName(t *testing.T) {
	for name, want := range map[string]bool{"localhost": true, "LocalHost.": true, "a.localhost": true, "*.localhost": true, "a.b.localhost.": true, "localhost.test": false, "notlocalhost": false, "": false} {
		if got := OwnName(name); got != want {
			t.Errorf("OwnName(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestOwnHostIn(t *testing.T) {
	for p, want := range map[string]bool{"127.0.0.1/32": true, "0.0.0.0/0": true, "127.128.0.0/9": true, "10.0.0.0/8": false, "2001:db8::/32": true, "2001:db8::1/128": false, "::1/128": true} {
		if got := OwnHostIn(netip.MustParsePrefix(p)); got != want {
			t.Errorf("OwnHostIn(%s) = %v", p, got)
		}
	}
}

func TestOwnHost(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "0.0.0.0": true, "0.0.0.1": true, "::": true,
		"::ffff:127.0.0.1": true, "::127.0.0.1": true, "::ffff:0:127.0.0.1": true, "64:ff9b::127.0.0.1": true, "2002:7f00:1::": true, "::1%lo": true,
		"10.0.0.1": false, "169.254.169.254": false, "fe80::1": false, "8.8.8.8": false, "::ffff:10.0.0.1": false,
	} {
		if got := OwnHost(netip.MustParseAddr(addr)); got != want {
			t.Errorf("OwnHost(%s) = %v, want %v", addr, got, want)
		}
	}
}
