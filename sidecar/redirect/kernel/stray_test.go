package kernel

import (
	"net"
	"strings"
	"testing"
)

// TestStrays: what is not for the pod does not come out of its proxy, and does not pass the pod either: connections to
// addresses elsewhere that a neighbour routes through it. An address that somebody gave the pod beside its first one is
// its own.
func TestStrays(t *testing.T) {
	const elsewhereV4, elsewhereV6, secondV4, secondV6 = "198.51.100.9", "2001:db8:9::9", "192.0.2.9", "2001:db8:2::9"
	for _, kind := range kinds {
		for mode, transparent := range map[string]bool{"REDIRECT": false, "TPROXY": true} {
			t.Run(kind+"/"+mode, func(t *testing.T) {
				l := newLab(t, kind)
				for _, line := range []string{
					// The pod would forward, as nodes' setting lets most pods do.
					"ip netns exec " + l.pod + " sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
					"ip -n " + l.pod + " addr add fe80::2/64 dev eth0 nodad", // to find neighbours on behalf of the second address
					"ip -n " + l.pod + " route add default via " + outsideV4,
					"ip -n " + l.pod + " -6 route add default via " + outsideV6,
					"ip -n " + l.pod + " addr add " + secondV4 + "/32 dev lo",
					"ip -n " + l.pod + " -6 addr add " + secondV6 + "/128 dev lo nodad",
					"ip -n " + l.outside + " route add default via " + podV4,
					"ip -n " + l.outside + " -6 route add default via " + podV6,
				} {
					sh(t, line)
				}
				l.mustInit(true, "-m", mode)
				l.mustInit(false, "-m", mode)
				l.serveAll(transparent)
				var r role
				r.Do = "dial"
				ports := []string{"80", "15001", "15006", "15020"} // caught, the proxy's own, and one that is left alone
				for _, host := range []string{elsewhereV4, elsewhereV6, secondV4, secondV6} {
					for _, port := range ports {
						r.Dials = append(r.Dials, dial{Network: "tcp", Address: net.JoinHostPort(host, port)})
					}
				}
				out, err := l.play(l.outside, r)
				answers := strings.Split(out, "\n")
				if err != nil || len(answers) != len(r.Dials) {
					t.Fatalf("%v: %s", err, out)
				}
				for i, d := range r.Dials {
					host, port, _ := net.SplitHostPort(d.Address)
					want := "error"
					if host == secondV4 || host == secondV6 {
						if want = "inbound for " + d.Address; port == "15020" {
							want = "metrics"
						}
					}
					if !strings.HasPrefix(answers[i], want) {
						t.Errorf("to %s: %q, want %q", d.Address, answers[i], want)
					}
				}
			})
		}
	}
}
