package dnsproxy

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/name"
)

// libcs are the C libraries that containers have, and the compilers for them.
var libcs = map[string]struct{ compiler, pkg string }{"glibc": {"gcc", "gcc"}, "musl": {"musl-gcc", "musl-tools"}}

// compile makes the program that looks names up with a C library.
func compile(t *testing.T, libc string) string {
	t.Helper()
	compiler, err := exec.LookPath(libcs[libc].compiler)
	if err != nil {
		t.Skipf("%s is not installed: apt-get install %s", libcs[libc].compiler, libcs[libc].pkg)
	}
	out := filepath.Join(t.TempDir(), "lookup")
	if text, err := exec.Command(compiler, "-O1", "-o", out, "testdata/lookup.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// lookup runs the program where /etc/resolv.conf has the content, and returns what it says of each host.
func lookup(t *testing.T, program, resolvConf string, hosts ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	for file, content := range map[string]string{"resolv.conf": resolvConf, "nsswitch.conf": "hosts: dns\n", "hosts": ""} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	script := `cd "$1" && shift && for f in *; do [ ! -e /etc/$f ] || mount --bind $f /etc/$f || exit 9; done && exec "$@"`
	args := append([]string{"--mount", "--propagation", "private", "sh", "-c", script, "sh", dir, program}, hosts...)
	cmd := exec.Command("unshare", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("unshare: %v", err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		host, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[host] = rest
	}
	return found
}

// taken53 is how many addresses this process has taken: no two tests are given the same.
var taken53 atomic.Uint32

// onPort53 is an address of the loopback that nobody else uses: resolv.conf has no ports.
func onPort53(t *testing.T) string {
	t.Helper()
	udp := listenOnPort53(t)
	defer udp.Close()
	return udp.LocalAddr().(*net.UDPAddr).AddrPort().Addr().String()
}

// listenOnPort53 takes the address for UDP. Who is to answer there is best given this: a program that starts meanwhile has a copy of what is closed, until it runs,
// and the address is not free.
func listenOnPort53(t *testing.T) net.PacketConn {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can listen on port 53 and replace /etc/resolv.conf in a mount namespace")
	}
	pid := os.Getpid()
	for range 100 {
		addr := fmt.Sprintf("127.%d.%d.%d", 100+taken53.Add(1)%100, pid>>8&0xff, max(pid&0xff, 1))
		udp, err := net.ListenPacket("udp", addr+":53")
		if err != nil {
			continue
		}
		if tcp, err := net.Listen("tcp", addr+":53"); err == nil {
			tcp.Close()
			return udp
		}
		udp.Close()
	}
	t.Fatal("no address of the loopback has a free port 53")
	return nil
}

// libcTimeout is how long a lookup waits for an answer that does not come, by podSearch.
const libcTimeout = 30 * time.Second

const podSearch = "search ns.svc.cluster.local svc.cluster.local cluster.local corp.test\noptions ndots:5 timeout:30 attempts:1\n"

// TestSearchLists: with a pod's resolv.conf, names of every kind are found by both C libraries while unregistered ones
// are refused, and are refused at once.
func TestSearchLists(t *testing.T) {
	addr := onPort53(t)
	a := startAuthority(t, "web.ns.svc.cluster.local. 60 IN A 10.96.0.1", "web.other.svc.cluster.local. 60 IN A 10.96.0.2",
		"pod0.head.ns.svc.cluster.local. 60 IN A 10.0.0.7", "bare.test. 60 IN A 192.0.2.1", "evil.test. 60 IN A 192.0.2.66")
	names := []name.Name{
		aliased(named("external.com", 0, "240.240.0.1"), "short"), named("v6.test", 0, "2001:2::1"), named("*.wild.test", 0, "240.240.0.2"),
		named("bare.test", 0), named("both.test", 0, "240.240.0.3", "2001:2::3"),
	}
	want := map[string]string{
		"external.com": "240.240.0.1", "external.com.": "240.240.0.1", "short": "240.240.0.1", "v6.test": "2001:2::1",
		"x.wild.test": "240.240.0.2", "web": "10.96.0.1", "web.other": "10.96.0.2", "web.other.svc": "10.96.0.2",
		"web.other.svc.cluster.local": "10.96.0.2", "pod0.head": "10.0.0.7", "bare.test": "192.0.2.1", "evil.test": "error-2", "both.test": "240.240.0.3 2001:2::3",
	}
	s := serve(t, Config{Upstreams: []string{a.addr}, Views: []View{{
		Name: "app", Names: true, Listen: []string{addr + ":53"}, Search: []string{"ns.svc.cluster.local", "svc.cluster.local", "cluster.local"},
	}}})
	_ = s.Names().Apply(names, nil)
	s.Names().SetReady()
	if err := s.SetPolicy("app", Policy{RefuseUnregistered: true, Local: []string{"cluster.local"}}); err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for host := range want {
		hosts = append(hosts, host)
	}
	for libc := range libcs {
		t.Run(libc, func(t *testing.T) {
			program := compile(t, libc)
			start := time.Now()
			found := lookup(t, program, "nameserver "+addr+"\n"+podSearch, hosts...)
			if took := time.Since(start); took > libcTimeout {
				t.Errorf("took %v: something was waited for", took)
			}
			for host, want := range want {
				if !sameAddrs(found[host], want) {
					t.Errorf("%s: got %s, want %s", host, found[host], want)
				}
			}
		})
	}
	if a.count("evil.test. A")+a.count("evil.test. AAAA") != 0 {
		t.Error("an unregistered name went upstream")
	}
}

func sameAddrs(got, want string) bool {
	left, right := map[string]bool{}, map[string]bool{}
	for _, a := range strings.Fields(got) {
		left[a] = true
	}
	for _, a := range strings.Fields(want) {
		right[a] = true
	}
	return len(left) == len(right) && fmt.Sprint(left) == fmt.Sprint(right)
}

// TestOnlyNXDomainIsSafe shows why: after another answer to a guess, the registered name is not found, or late.
func TestOnlyNXDomainIsSafe(t *testing.T) {
	for action, works := range map[string]map[string]bool{
		"NXDOMAIN": {"glibc": true, "musl": true}, "REFUSED": {"glibc": true, "musl": false},
		"SERVFAIL": {"glibc": true, "musl": false}, "NOERROR": {"glibc": true, "musl": false},
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel() // what it waits for are time-outs
			socket := listenOnPort53(t)
			addr := socket.LocalAddr().(*net.UDPAddr).AddrPort().Addr().String()
			srv := startAuthority(t)
			srv.answerWith(func(w dns.ResponseWriter, req *dns.Msg) bool {
				m := new(dns.Msg)
				m.SetRcode(req, dns.StringToRcode[action])
				if strings.EqualFold(req.Question[0].Name, "external.com.") {
					m.SetReply(req)
					if req.Question[0].Qtype == dns.TypeA {
						m.Answer = []dns.RR{record(t, "external.com. 60 IN A 240.240.0.1")}
					}
				}
				_ = w.WriteMsg(m)
				return true
			})
			relay := relayTo(t, socket, srv)
			defer relay()
			for libc, want := range works {
				got := lookup(t, compile(t, libc), "nameserver "+addr+"\n"+podSearch, "external.com")["external.com"]
				if (got == "240.240.0.1") != want {
					t.Errorf("%s after %s: %q", libc, action, got)
				}
			}
		})
	}
}

// relayTo lets srv answer at a socket as well, which is closed by stop.
func relayTo(t *testing.T, socket net.PacketConn, srv dns.Handler) (stop func()) {
	t.Helper()
	ready := make(chan struct{})
	server := &dns.Server{PacketConn: socket, Handler: srv, NotifyStartedFunc: func() { close(ready) }}
	done := make(chan struct{})
	var failed error
	go func() { defer close(done); failed = server.ActivateAndServe() }()
	select {
	case <-ready:
	case <-done:
		t.Fatalf("%s: %v", socket.LocalAddr(), failed)
	}
	return func() { _ = server.Shutdown(); <-done }
}
