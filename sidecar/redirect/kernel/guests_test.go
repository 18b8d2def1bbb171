package kernel

import (
	"net"
	"strings"
	"testing"
)

// TestGuests: what a guest of the pod (a virtual machine, a container of an engine inside) sends through it is caught as the
// pod's own, but for what is excepted, and goes nowhere where the interface is not named.
func TestGuests(t *testing.T) {
	const guestV4, hostV4, guestV6, hostV6 = "172.31.7.2", "172.31.7.1", "fd31:7::2", "fd31:7::1"
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, kind)
			guest := strings.TrimSuffix(l.pod, "pod") + "gst"
			sh(t, "ip netns add "+guest)
			t.Cleanup(func() { sh(t, "ip netns del "+guest) })
			for _, line := range []string{
				"ip link add eth0 netns " + guest + " type veth peer name guest0 netns " + l.pod,
				"ip -n " + l.pod + " link set guest0 up",
				"ip -n " + guest + " link set eth0 up",
				"ip -n " + l.pod + " addr add " + hostV4 + "/24 dev guest0",
				"ip -n " + l.pod + " addr add " + hostV6 + "/64 dev guest0 nodad",
				"ip -n " + guest + " addr add " + guestV4 + "/24 dev eth0",
				"ip -n " + guest + " addr add " + guestV6 + "/64 dev eth0 nodad",
				"ip -n " + l.pod + " addr add fe80::2/64 dev eth0 nodad", // to find neighbours on the guest's behalf
				"ip -n " + guest + " route add default via " + hostV4,
				"ip -n " + guest + " -6 route add default via " + hostV6,
				"ip netns exec " + l.pod + " sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
				"ip -n " + l.outside + " route add 172.31.7.0/24 via " + podV4,
				"ip -n " + l.outside + " -6 route add fd31:7::/64 via " + podV6,
			} {
				sh(t, line)
			}
			l.mustInit(true, "-k", "guest0", "-o", "8443")
			l.mustInit(false, "-k", "guest0", "-o", "8443")
			proxy, outside := role{Do: "serve", UID: proxyID, GID: proxyID}, role{Do: "serve"}
			for family, host := range map[string]string{"tcp4": outsideV4, "tcp6": outsideV6} {
				proxy.Serve = append(proxy.Serve, server{Network: family, Address: ":15001", Name: "outbound"})
				for _, port := range []string{"80", "8443"} {
					outside.Serve = append(outside.Serve, server{Network: family, Address: net.JoinHostPort(host, port), Name: "outside"})
				}
			}
			l.start(l.pod, proxy)
			l.start(l.outside, outside)
			try := func(want map[string]string) {
				t.Helper()
				var r role
				r.Do = "dial"
				for address := range want {
					r.Dials = append(r.Dials, dial{Network: "tcp", Address: address})
				}
				out, err := l.play(guest, r)
				answers := strings.Split(out, "\n")
				if err != nil || len(answers) != len(r.Dials) {
					t.Fatalf("%v: %s", err, out)
				}
				for i, d := range r.Dials {
					if !strings.HasPrefix(answers[i], want[d.Address]) {
						t.Errorf("to %s: %q, want %q", d.Address, answers[i], want[d.Address])
					}
				}
			}
			caught, excepted := map[string]string{}, map[string]string{}
			for _, host := range []string{outsideV4, outsideV6} {
				a, b := net.JoinHostPort(host, "80"), net.JoinHostPort(host, "8443")
				caught[a], caught[b] = "outbound for "+a, "outside"
				excepted[a] = "error" // nobody named the interface: it is a stranger's
			}
			try(caught)
			l.mustInit(true, "--clean")
			l.mustInit(true)
			try(excepted)
		})
	}
}
