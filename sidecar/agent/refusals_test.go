package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/dnsproxy"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/sidecar/bootstrap"
)

func refusal(host, addr string) dnsproxy.Refusal {
	return dnsproxy.Refusal{View: "resolver", Host: host, Addresses: []netip.Addr{netip.MustParseAddr(addr)}}
}

func TestRefusalsAreRecordedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []record.Record
		r := &refusals{
			log: slog.New(slog.DiscardHandler), now: time.Now, origin: record.Record{Proxy: "p", Reporter: record.ReporterGateway},
			append: func(one record.Record) error { got = append(got, one); return nil },
		}
		records := func() []record.Record {
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.Clone(got)
		}
		ctx, end := context.WithCancel(t.Context())
		go r.run(ctx)
		for range 1000 {
			r.note(refusal("evil.test", "169.254.169.254"))
		}
		r.note(refusal("other.test", "10.0.0.1"))
		if len(records()) != 2 {
			t.Fatalf("%d records at once", len(records()))
		}
		first := records()[0]
		if first.Class != record.DNS || first.Verdict != record.Denied || first.Path != record.PathGateway || first.Host != "evil.test" ||
			first.Destination != "169.254.169.254" || !strings.Contains(first.Reason, "--allow-private evil.test") || first.Proxy != "p" {
			t.Errorf("%+v", first)
		}
		time.Sleep(refusalsEvery + refusalsEvery/2) // the bubble's clock
		synctest.Wait()
		if now := records(); len(now) != 3 || !strings.Contains(now[2].Reason, "999 times") {
			t.Errorf("after a minute: %+v", now)
		}
		time.Sleep(2 * refusalsEvery)
		synctest.Wait()
		if r.len() != 0 {
			t.Errorf("%d hosts are remembered for nothing", r.len())
		}
		r.note(refusal("evil.test", "10.0.0.2"))
		r.note(refusal("evil.test", "10.0.0.3"))
		end()
		synctest.Wait()
		if now := records(); len(now) != 5 || now[4].Destination != "10.0.0.3" {
			t.Errorf("at the end: %+v", now)
		}
	})
}

func TestRefusalsOfManyHostsAreBounded(t *testing.T) {
	var got []record.Record
	r := &refusals{
		log: slog.New(slog.DiscardHandler), now: time.Now,
		append: func(one record.Record) error { got = append(got, one); return nil },
	}
	for i := range 3 * refusedHosts {
		r.note(refusal(fmt.Sprintf("%d.evil.test", i), "10.0.0.1"))
	}
	r.tell(0)
	if len(got) != refusedHosts+2 || r.len() > refusedHosts+1 {
		t.Errorf("%d records, %d hosts", len(got), r.len())
	}
}

// TestResolverRefuses asks both kinds of proxies' resolvers by UDP.
func TestResolverRefuses(t *testing.T) {
	upstream := privateNames(t)
	for role, refused := range map[string]map[string]bool{
		bootstrap.Router:  {"evil.test.": true, "db.corp.example.": false, "a.default.svc.cluster.local.": true},
		bootstrap.Sidecar: {"evil.test.": true, "db.corp.example.": false, "a.default.svc.cluster.local.": false},
	} {
		t.Run(role, func(t *testing.T) {
			notes := make(chan dnsproxy.Refusal, 8)
			c := Config{
				Proxy: bootstrap.Options{Role: role, Namespace: "ns"}, DNSUpstream: []string{upstream}, DNSAddr: "127.0.0.1:0", ResolverAddr: "127.0.0.1:0",
				AllowPrivate: []string{"*.corp.example"}, Log: slog.New(slog.DiscardHandler),
			}
			server, err := c.resolver(prometheus.NewRegistry(), func(r dnsproxy.Refusal) { notes <- r })
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Listen(); err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- server.Serve(ctx) }()
			for host, want := range refused {
				q := new(dns.Msg).SetQuestion(host, dns.TypeA)
				answer, err := dns.Exchange(q, server.Addr("resolver").String())
				if err != nil {
					t.Fatal(err)
				}
				if got := len(answer.Answer) == 0; got != want {
					t.Errorf("%s: %v", host, answer)
				}
				if want {
					if r := <-notes; r.Host+"." != host || r.Addresses[0].String() != "10.0.0.1" {
						t.Errorf("noted %+v", r)
					}
				}
			}
			end()
			if err := <-done; err != nil || len(notes) > 0 {
				t.Errorf("%v, %d more notes", err, len(notes))
			}
		})
	}
}

// privateNames is a name server for which every name is at 10.0.0.1.
func privateNames(t *testing.T) string {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(10, 0, 0, 1)}}
		_ = w.WriteMsg(m)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = server.Shutdown(); <-done })
	return conn.LocalAddr().String()
}
