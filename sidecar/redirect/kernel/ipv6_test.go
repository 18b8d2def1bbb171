package kernel

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sallyport/sallyport/sidecar/redirect"
)

func TestUseIPv6(t *testing.T) {
	const linkLocal = "fe800000000000000000000000000001 02 40 20 80 eth0\n"
	proc := func(addresses, disabled string) fstest.MapFS {
		return fstest.MapFS{
			"thread-self/net/if_inet6":               {Data: []byte(addresses)},
			"sys/net/ipv6/conf/default/disable_ipv6": {Data: []byte(disabled)},
		}
	}
	for _, c := range []struct {
		name   string
		proc   fstest.MapFS
		choice redirect.IPv6Choice
		want   bool
		err    string
	}{
		{"no IPv6 in the kernel", fstest.MapFS{}, redirect.IPv6Auto, false, ""},
		{"none, but wanted", fstest.MapFS{}, redirect.IPv6On, false, "--ipv6=on, but this kernel has no IPv6"},
		{"a link-local address is a way out", proc(linkLocal, "0\n"), redirect.IPv6Auto, true, ""},
		{"an address, although disabled for new interfaces", proc(linkLocal, "1\n"), redirect.IPv6Auto, true, ""},
		{"no address yet", proc("", "0\n"), redirect.IPv6Auto, true, ""},
		{"disabled", proc("", "1\n"), redirect.IPv6Auto, false, ""},
		{"disabled, but wanted", proc("", "1\n"), redirect.IPv6On, true, ""},
		{"switched off", proc(linkLocal, "0\n"), redirect.IPv6Off, false, ""},
		{"unknown", fstest.MapFS{"thread-self/net/if_inet6": {}}, redirect.IPv6Auto, true, ""},
	} {
		got, err := UseIPv6(c.proc, c.choice)
		if got != c.want || (err != nil) != (c.err != "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: got %v, %v", c.name, got, err)
		}
	}
}
