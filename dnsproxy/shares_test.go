package dnsproxy

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/hostile"
)

// silentExcept is an upstream that answers for one name, and not at all for others.
func silentExcept(t *testing.T, name string) string {
	return hostile.Start(t, hostile.Config{UDP: func(w *hostile.Writer, req *dns.Msg) {
		if strings.EqualFold(req.Question[0].Name, name) {
			hostile.Answer("192.0.2.1")(w, req)
		}
	}}).Addr.String()
}

// flood asks an address for so many names, without waiting.
func flood(t *testing.T, addr net.Addr, count int, nth func(int) string) {
	t.Helper()
	conn, err := net.Dial("udp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for i := range count {
		wire, err := new(dns.Msg).SetQuestion(nth(i), dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(wire)
	}
}

// TestOnePodsStreamsLeaveRoom: nor do its connections, however many there are, and whatever it does with them.
func TestOnePodsStreamsLeaveRoom(t *testing.T) {
	const good = "www.good.test."
	pack := func(name string) []byte {
		wire, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte{byte(len(wire) >> 8), byte(len(wire))}, wire...)
	}
	for what, says := range map[string]func(i int) []byte{
		"nothing":         func(int) []byte { return nil },
		"half a question": func(int) []byte { return pack(good)[:9] },
		"many questions that nobody answers": func(i int) (all []byte) {
			for n := range 4 * pipeline {
				all = append(all, pack(fmt.Sprintf("www.evil%d-%d.test.", i, n))...)
			}
			return all
		},
		"many questions whose answers nobody takes": func(int) []byte { return bytes.Repeat(pack(good), 20000) },
	} {
		t.Run(what, func(t *testing.T) {
			s := serve(t, Config{Upstreams: []string{silentExcept(t, good)}, Patience: time.Minute, MaxInFlight: 64, MaxUpstream: 32, MaxConns: 32, Grace: 1})
			_, evil := openBoth(t, s)
			packets, streams := openBoth(t, s)
			for i := range 200 {
				conn, err := net.Dial("tcp", evil.String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				go func() { _, _ = conn.Write(says(i)) }()
			}
			for range 20 {
				for network, addr := range map[string]net.Addr{"udp": packets, "tcp": streams} {
					m, _, err := (&dns.Client{Net: network, Timeout: time.Minute}).Exchange(new(dns.Msg).SetQuestion(good, dns.TypeA), addr.String())
					if err != nil || show(m) != "NOERROR | A 60 192.0.2.1" {
						t.Fatalf("the other pod, by %s: %v (%v)", network, m, err)
					}
				}
			}
		})
	}
}

// TestOneDomainLeavesRoom: names of one domain that nobody answers take no place that others' new names need. At a gateway anybody who may
// register a wildcard can have them asked for.
func TestOneDomainLeavesRoom(t *testing.T) {
	for what, nth := range map[string]func(int) string{
		"one domain":             func(i int) string { return fmt.Sprintf("n%d.evil.test.", i) },
		"of a public suffix":     func(i int) string { return fmt.Sprintf("n%d.evil.co.uk.", i) },
		"several, and deep ones": func(i int) string { return fmt.Sprintf("n%d.a.b.evil%d.test.", i, i%5) },
	} {
		t.Run(what, func(t *testing.T) {
			good := "www.good.co.uk."
			s := serve(t, Config{Upstreams: []string{silentExcept(t, good)}, MaxInFlight: 256, MaxUpstream: 32, Grace: 1})
			flood(t, net.UDPAddrFromAddrPort(s.Addr("resolver")), 500, nth)
			eventually(t, "names of the domain are refused", func() bool { return metric(t, s, "sallyport_dns_answers_total", "failure") > 100 })
			if m := insist(s, good, dns.TypeA); m == nil || show(m) != "NOERROR | A 60 192.0.2.1" {
				t.Errorf("another's name: %v", m)
			}
		})
	}
}
