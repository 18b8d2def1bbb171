package kernel

import (
	"net"
	"strings"
	"testing"
)

// serveAll starts the proxy, the agent's DNS and an application in the pod, and a world outside.
func (l *lab) serveAll(transparent bool) {
	proxy := role{Do: "serve", UID: proxyID, GID: proxyID}
	app := role{Do: "serve", UID: appID, GID: appID}
	outside := role{Do: "serve"}
	for _, f := range []struct{ n, loopback, any, outside string }{{"4", "127.0.0.1", "0.0.0.0", outsideV4}, {"6", "::1", "::", outsideV6}} {
		add := func(r *role, network, host, port, name string) {
			r.Serve = append(r.Serve, server{Network: network + f.n, Address: net.JoinHostPort(host, port), Name: name})
		}
		add(&proxy, "tcp", f.loopback, "15001", "outbound")
		add(&proxy, "tcp", f.any, "15006", "inbound")
		proxy.Serve[len(proxy.Serve)-1].Transparent = transparent
		add(&proxy, "tcp", f.any, "15020", "metrics")
		add(&proxy, "tcp", f.loopback, "15053", "agent-dns")
		add(&proxy, "udp", f.loopback, "15053", "agent-dns")
		add(&app, "tcp", f.any, "8080", "app")
		add(&outside, "tcp", f.outside, "80", "outside")
		add(&outside, "tcp", f.outside, "53", "outside")
		add(&outside, "udp", f.outside, "53", "outside")
		add(&outside, "udp", f.outside, "443", "outside")
	}
	l.start(l.pod, proxy)
	l.start(l.pod, app)
	l.start(l.outside, outside)
}

// try is one connection and what becomes of it.
type try struct {
	what     string
	from     string // pod or outside
	uid, gid int
	network  string // tcp or udp
	to       string // host:port; POD, OUT, LO and SRC stand for the family's addresses
	local    string
	want     string // the beginning of the answer
}

// tries for a pod with every default and --block-quic.
var tries = []try{
	{"an application's connection goes to the proxy", "pod", appID, appID, "tcp", "OUT:80", "", "outbound for OUT:80"},
	{"localhost is left alone", "pod", appID, appID, "tcp", "LO:8080", "", "app"},
	{"an application calls its own address", "pod", appID, appID, "tcp", "POD:8080", "", "app"},
	{"DNS over UDP goes to the agent", "pod", appID, appID, "udp", "OUT:53", "", "agent-dns"},
	{"DNS over TCP goes to the agent", "pod", appID, appID, "tcp", "OUT:53", "", "agent-dns for OUT:53"},
	{"DNS to a server on this host, UDP", "pod", appID, appID, "udp", "LO:53", "", "agent-dns"},
	{"DNS to a server on this host, TCP", "pod", appID, appID, "tcp", "LO:53", "", "agent-dns for LO:53"},
	{"DNS to the pod's own address", "pod", appID, appID, "tcp", "POD:53", "", "agent-dns for POD:53"},
	{"QUIC is refused at once", "pod", appID, appID, "udp", "OUT:443", "", "error: write udp"},
	{"root's connection too", "pod", 0, 0, "tcp", "OUT:80", "", "outbound for OUT:80"},
	{"the proxy's own goes out", "pod", proxyID, proxyID, "tcp", "OUT:80", "", "outside"},
	{"the proxy calls its own pod's service", "pod", proxyID, proxyID, "tcp", "POD:8080", "", "inbound for POD:8080"},
	{"the proxy hands over to the application", "pod", proxyID, proxyID, "tcp", "POD:8080", "SRC:0", "app"},
	{"what the proxy makes once more comes back to it", "pod", proxyID, proxyID, "tcp", "OUT:80", "SRC:0", "outbound for OUT:80"},
	{"the proxy's stats on its own address are caught", "pod", proxyID, proxyID, "tcp", "POD:15020", "", "inbound for POD:15020"},
	{"the agent's query goes out, UDP", "pod", proxyID, proxyID, "udp", "OUT:53", "", "outside"},
	{"the agent's query goes out, TCP", "pod", proxyID, proxyID, "tcp", "OUT:53", "", "outside"},
	{"QUIC is not refused to the proxy", "pod", proxyID, proxyID, "udp", "OUT:443", "", "outside"},
	{"the proxy's user is enough", "pod", proxyID, appID, "tcp", "OUT:80", "", "outside"},
	{"the proxy's group is enough", "pod", appID, proxyID, "tcp", "OUT:80", "", "outside"},
	{"inbound goes to the proxy", "outside", 0, 0, "tcp", "POD:8080", "", "inbound for POD:8080"},
	{"inbound to a port where nobody listens, too", "outside", 0, 0, "tcp", "POD:9", "", "inbound for POD:9"},
	{"an excluded port is left alone", "outside", 0, 0, "tcp", "POD:15020", "", "metrics"},
	{"a query from some port goes to the agent", "pod", appID, appID, "udp", "OUT:53", "POD:4444", "agent-dns"},
	{"the agent's from the same port still goes out", "pod", proxyID, proxyID, "udp", "OUT:53", "POD:4444", "outside"},
	{"and the other again to the agent", "pod", appID, appID, "udp", "OUT:53", "POD:4444", "agent-dns"},
}

// try makes the connections, in order. Those of one user that follow each other share a process.
func (l *lab) try(tries []try) {
	for name, addresses := range map[string]*strings.Replacer{
		"v4": strings.NewReplacer("OUT", outsideV4, "POD", podV4, "LO", "127.0.0.1", "SRC", "127.0.0.6"),
		"v6": strings.NewReplacer("OUT", "["+outsideV6+"]", "POD", "["+podV6+"]", "LO", "[::1]", "SRC", "[::6]"),
	} {
		for rest := tries; len(rest) > 0; {
			first, n := rest[0], 0
			r := role{Do: "dial", UID: first.uid, GID: first.gid}
			for n < len(rest) && rest[n].from == first.from && rest[n].uid == first.uid && rest[n].gid == first.gid {
				d := dial{Network: rest[n].network, Address: addresses.Replace(rest[n].to), Local: addresses.Replace(rest[n].local)}
				if strings.HasPrefix(d.Local, "127.") { // as the proxy does
					d.Device = "lo"
				}
				r.Dials = append(r.Dials, d)
				n++
			}
			ns := l.pod
			if first.from == "outside" {
				ns = l.outside
			}
			out, err := l.play(ns, r)
			answers := strings.Split(out, "\n")
			if err != nil || len(answers) != n {
				l.t.Fatalf("%s: %s: %v: %s", name, first.what, err, out)
			}
			for i, c := range rest[:n] {
				if want := addresses.Replace(c.want); !strings.HasPrefix(answers[i], want) {
					l.t.Errorf("%s: %s: %s to %s: got %q, want %q", name, c.what, c.network, c.to, answers[i], want)
				}
			}
			rest = rest[n:]
		}
	}
}

func TestRedirectTraffic(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, kind)
			l.mustInit(true, "--block-quic")
			l.serveAll(false)
			l.try(tries)
		})
	}
}

func TestTProxyTraffic(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, kind)
			l.mustInit(true, "--block-quic", "-m", "TPROXY")
			l.mustInit(false, "--block-quic", "-m", "TPROXY")
			l.serveAll(true)
			l.try(tries)
		})
	}
}

// TestQUICAtNodes: a pod that its node serves is refused QUIC at once where its rules say so, and lets it go where they do not; other datagrams go, as with sidecars.
func TestQUICAtNodes(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, kind)
			l.serveAll(false)
			for _, rules := range []struct {
				args []string
				want string
			}{{nil, "outside"}, {[]string{"quic"}, "error: write udp"}, {nil, "outside"}} {
				if out, err := l.play(l.pod, role{Do: "ambient", Args: rules.args}, "PATH="+l.path); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				l.try([]try{
					{"QUIC", "pod", appID, appID, "udp", "OUT:443", "", rules.want},
					{"of root", "pod", 0, 0, "udp", "OUT:443", "", rules.want},
				})
			}
		})
	}
}

// TestSpecialNameservers: every address in 127.0.0.0/8 may be a DNS server (systemd-resolved: 127.0.0.53, Docker: 127.0.0.11).
func TestSpecialNameservers(t *testing.T) {
	l := newLab(t, kinds[0])
	l.mustInit(true)
	l.serveAll(false)
	sh(t, "ip -n "+l.pod+" route replace default via "+outsideV4)
	r := role{Do: "dial", UID: appID, GID: appID}
	for _, network := range []string{"udp", "tcp"} {
		for _, address := range []string{"127.0.0.53:53", "127.0.0.11:53", "169.254.20.10:53"} {
			r.Dials = append(r.Dials, dial{Network: network, Address: address})
		}
	}
	out, err := l.play(l.pod, r)
	for i, answer := range strings.Split(out, "\n") {
		if !strings.HasPrefix(answer, "agent-dns") {
			t.Errorf("%v: got %q (%v)", r.Dials[i], answer, err)
		}
	}
}

// TestLeftAlone: what the flags exclude goes straight out.
func TestLeftAlone(t *testing.T) {
	l := newLab(t, kinds[0])
	l.serveAll(false)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-x", outsideV4 + "/32," + outsideV6}, "outside"},
		{[]string{"-o", "80"}, "outside"},
		{[]string{"-c", "eth0"}, "outside"},
		{[]string{"-i", "192.0.2.0/24"}, "outside"},
		{[]string{"-i", "192.0.2.0/24", "-q", "80"}, "outbound"},
		{[]string{"-i", outsideV4 + "/24," + outsideV6 + "/64"}, "outbound"},
	} {
		l.mustInit(true, c.args...)
		l.try([]try{{strings.Join(c.args, " "), "pod", appID, appID, "tcp", "OUT:80", "", c.want}})
	}
}
