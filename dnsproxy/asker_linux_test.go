package dnsproxy

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/dnsproxy/limit"
)

// pods are several pods' sockets at one address, as they are in networks of their own.
type pods struct {
	t    *testing.T
	addr net.Addr
	raw  syscall.RawConn // one of them, by which is chosen for all
}

func openPods(t *testing.T, s *Server, askers ...Asker) *pods {
	t.Helper()
	p := &pods{t: t}
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(err, failed)
	}}
	at := "127.0.0.1:0"
	for _, asker := range askers {
		packets, err := shared.ListenPacket(t.Context(), "udp4", at)
		if err != nil {
			t.Fatal(err)
		}
		streams, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if p.raw, err = packets.(*net.UDPConn).SyscallConn(); err != nil {
			t.Fatal(err)
		}
		p.addr = packets.LocalAddr()
		at = p.addr.String()
		if _, err := s.Open("resolver", asker, packets, streams); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// choose has the kernel hand what is asked from now on to the nth pod's socket (SO_ATTACH_REUSEPORT_CBPF, socket(7)).
func (p *pods) choose(nth int) {
	p.t.Helper()
	program := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: uint32(nth)}}
	var failed error
	if err := p.raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	}); err != nil || failed != nil {
		p.t.Fatal(err, failed)
	}
}

// ask asks the pod that is chosen, from an address of the loopback.
func (p *pods) ask(from, host string, kind uint16) string {
	p.t.Helper()
	client := dns.Client{Timeout: patience, Dialer: &net.Dialer{Timeout: patience, LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}}
	m, _, err := client.Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(host), kind), p.addr.String())
	if err != nil {
		p.t.Fatal(err)
	}
	return show(m)
}

// TestOnePodLeavesRoom: at a node, what one pod asks for and nobody answers takes no place that other pods need, of however many domains it is, nor one
// that Envoy needs for what it looks up. All pods' sockets have the same address, and half as many names are asked for at a time as questions wait, as it is
// without any settings.
func TestOnePodLeavesRoom(t *testing.T) {
	const good, answered = "www.good.test.", "NOERROR | A 60 192.0.2.1"
	for what, nth := range map[string]func(int) string{
		"many domains":     func(i int) string { return fmt.Sprintf("www.evil%d.test.", i) },
		"the other's, too": func(i int) string { return fmt.Sprintf("n%d.good.test.", i) },
	} {
		t.Run(what, func(t *testing.T) {
			s := serve(t, Config{Upstreams: []string{silentExcept(t, good)}, Patience: time.Minute, MaxInFlight: 64, MaxUpstream: 32, Grace: 1})
			p := openPods(t, s, Asker{Namespace: "shop", Name: "evil"}, Asker{Namespace: "shop", Name: "polite"})
			p.choose(0)
			flood(t, p.addr, 500, nth)
			eventually(t, "the pod's names are refused", func() bool { return metric(t, s, "sallyport_dns_answers_total", "failure") > 100 })
			p.choose(1)
			if got := p.ask("127.0.0.1", good, dns.TypeA); got != answered {
				t.Errorf("the other pod was told %s", got)
			}
			s.Flush()
			if m := insist(s, good, dns.TypeA); m == nil || show(m) != answered {
				t.Errorf("Envoy was told %v", m)
			}
		})
	}
}

// TestPodsAreLimited: at a pod's sockets the limits are the pod's, whatever addresses it asks from, and no other pod's; and what is denied says whose it is.
func TestPodsAreLimited(t *testing.T) {
	var decisions decided
	s := serve(t, Config{Upstreams: []string{startAuthority(t).addr}, OnDeny: decisions.note})
	if err := s.SetPolicy("resolver", Policy{Upstream: limit.Rate{PerSecond: 1, Burst: 3}, Odd: limit.Rate{PerSecond: 1, Burst: 2}}); err != nil {
		t.Fatal(err)
	}
	pod := Asker{Principal: "spiffe://m/ns/shop/sa/evil", Namespace: "shop", ServiceAccount: "evil", Name: "evil-1"}
	p := openPods(t, s, pod, Asker{Namespace: "shop", Name: "polite"})
	p.choose(0)
	asks := func(i int, kind uint16) string {
		return p.ask(fmt.Sprintf("127.0.%d.1", i), fmt.Sprintf("n%d.test", i), kind)
	}
	for i, want := range []string{"NXDOMAIN", "NXDOMAIN", "SERVFAIL", "SERVFAIL"} {
		if got := asks(i, dns.TypeTXT); got != want {
			t.Errorf("odd question %d: %s, want %s", i, got, want)
		}
	}
	for i, want := range []string{"NXDOMAIN", "SERVFAIL", "SERVFAIL"} {
		if got := asks(10+i, dns.TypeA); got != want {
			t.Errorf("question %d: %s, want %s", i, got, want)
		}
	}
	if d := decisions.last(); d.Source != FromLimit || d.Asker == nil || *d.Asker != pod || d.Client.Addr().String() != "127.0.12.1" {
		t.Errorf("the decision: %+v of %+v", d, d.Asker)
	}
	p.choose(1)
	if got := asks(20, dns.TypeA); got != "NXDOMAIN" {
		t.Errorf("another pod is told %s", got)
	}
}

// TestOneWorkloadIsLimited: so it is where all who ask are one workload, and on the loopback, of which one machine has all addresses.
func TestOneWorkloadIsLimited(t *testing.T) {
	for what, view := range map[string]View{
		"a pod's own resolver": {Name: "resolver", Asker: &Asker{Namespace: "shop", Name: "web-1"}},
		"a machine's":          {Name: "resolver"},
	} {
		t.Run(what, func(t *testing.T) {
			var decisions decided
			s := serve(t, Config{Upstreams: []string{startAuthority(t).addr}, OnDeny: decisions.note, Views: []View{view}})
			if err := s.SetPolicy("resolver", Policy{Upstream: limit.Rate{PerSecond: 1, Burst: 2}}); err != nil {
				t.Fatal(err)
			}
			p := &pods{t: t, addr: net.UDPAddrFromAddrPort(s.Addr("resolver"))}
			for i, want := range []string{"NXDOMAIN", "NXDOMAIN", "SERVFAIL", "SERVFAIL"} {
				if got := p.ask(fmt.Sprintf("127.0.%d.1", i), fmt.Sprintf("n%d.test", i), dns.TypeA); got != want {
					t.Errorf("question %d: %s, want %s", i, got, want)
				}
			}
			if d := decisions.last(); d.Asker != view.Asker {
				t.Errorf("the decision is of %+v", d.Asker)
			}
		})
	}
}
