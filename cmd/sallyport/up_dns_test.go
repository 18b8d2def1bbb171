package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/dnsproxy/upstream"
)

// TestSettingsAndResolverReadAlike: what the mesh's settings take for a resolver's address, agents take too, for the
// same one. The two may not import each other.
func TestSettingsAndResolverReadAlike(t *testing.T) {
	for _, text := range []string{
		"10.0.0.10", "10.0.0.10:5353", "fd00::1", "[fd00::1]", "[fd00::1]:5353", "::ffff:10.0.0.1", "udp://10.0.0.1", "TCP://10.0.0.1",
		"tcp://[fd00::1]:5353", "tls://192.0.2.1", "tls://192.0.2.1#dns.example", "tls://192.0.2.1:8853#DNS.example.", "tls://[2001:db8::1]#dns.example",
		"", "dns.example", "10.0.0.10:0", "10.0.0.10#dns.example", "tcp://10.0.0.10#dns.example", "tls://10.0.0.1#", "tls://10.0.0.1#a..b",
		"https://10.0.0.1", "tls://", "10.0.0.10:99999", "10.0.0.10:53:53", "tls://10.0.0.1#a b",
	} {
		settings, settingsErr := mesh.Parse(fmt.Appendf(nil, "sallyport: {dns: {upstreams: [%q]}}", text))
		server, serverErr := upstream.ParseServer(text)
		if text == "" {
			continue // an empty item of a list is none
		}
		if (settingsErr == nil) != (serverErr == nil) {
			t.Errorf("%q: the settings say %v, the resolver says %v", text, settingsErr, serverErr)
			continue
		}
		if serverErr != nil {
			continue
		}
		again, err := upstream.ParseServer(settings.DNS.Upstreams[0])
		if err != nil || again.Addr != server.Addr || again.Transport != server.Transport {
			t.Errorf("%q: the settings make it %q, which is %v (%v), not %v", text, settings.DNS.Upstreams[0], again, err, server)
		}
	}
}

// TestNamesOfUp: flags reach the agent by flags; what the settings say does not have to.
func TestNamesOfUp(t *testing.T) {
	for _, c := range []struct {
		servers, private, want []string
	}{
		{nil, nil, nil},
		{[]string{"192.0.2.1"}, []string{"*.corp.example"}, []string{"--dns-upstream", "192.0.2.1", "--allow-private", "*.corp.example"}},
		{[]string{"127.0.0.1:5353"}, nil, []string{"--dns-upstream", "127.0.0.1:5353", "--allow-private", "127.0.0.0/8", "--allow-private", "::1/128"}},
	} {
		n, err := (&upFlags{dnsServers: c.servers, allowPrivate: c.private}).names()
		if err != nil || !slices.Equal(n.agentArgs(), c.want) {
			t.Errorf("%v, %v: %v, %v", c.servers, c.private, n.agentArgs(), err)
		}
	}
}
