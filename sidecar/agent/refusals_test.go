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
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/sidecar/bootstrap"
)

func answer(host, addr string) dnsproxy.Refusal {
	labels := strings.Split(host, ".")
	domain := strings.Join(labels[len(labels)-2:], ".")
	return dnsproxy.Refusal{View: "resolver", Host: host, Domain: domain, Addresses: []netip.Addr{netip.MustParseAddr(addr)}}
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
			r.noteAnswer(answer("evil.test", "169.254.169.254"))
		}
		r.noteAnswer(answer("other.test", "10.0.0.1"))
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
		r.noteAnswer(answer("evil.test", "10.0.0.2"))
		r.noteAnswer(answer("evil.test", "10.0.0.3"))
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
		r.noteAnswer(answer(fmt.Sprintf("%d.evil.test", i), "10.0.0.1"))
	}
	if r.noteAnswer(answer("www.good.test", "10.0.0.1")); got[len(got)-1].Host != "www.good.test" {
		t.Error("names of one domain leave no room for another's")
	}
	for i := range 3 * refusedHosts {
		r.noteAnswer(answer(fmt.Sprintf("www.evil%d.test", i), "10.0.0.1"))
	}
	if r.len() != refusedHosts+1 {
		t.Errorf("%d hosts", r.len())
	}
	r.tell(0)
	if len(got) != refusedHosts+2 {
		t.Errorf("%d records", len(got))
	}
	r.tell(0)
	if r.noteAnswer(answer("n.evil.test", "10.0.0.1")); r.len() != 1 || r.room.Taken() != 1 {
		t.Errorf("%d hosts are remembered, %d places are taken", r.len(), r.room.Taken())
	}
}

// TestDeniedQuestionsOfPods: at a node each pod's denied questions are its own, of the same name, too, whatever addresses they say that they come from; a
// pod that asks for ever more names leaves others' told apart, and what is not told apart is said of who asked. A pod's own proxy has no others to leave room for.
func TestDeniedQuestionsOfPods(t *testing.T) {
	var got []record.Record
	node := record.Workload{Principal: "spiffe://m/ns/mesh/sa/node", Namespace: "mesh", ServiceAccount: "node", Name: "node-1"}
	r := &refusals{
		log: slog.New(slog.DiscardHandler), now: time.Now, origin: record.Record{Proxy: "p", Reporter: record.ReporterSidecar, Workload: node},
		append: func(one record.Record) error { got = append(got, one); return nil },
	}
	pod := func(name string) record.Workload {
		return record.Workload{Principal: "spiffe://m/ns/shop/sa/" + name, Namespace: "shop", ServiceAccount: name, Name: name + "-1"}
	}
	asks := func(pod record.Workload, host string, limited bool) {
		asker := askerOf(pod)
		d := question(host, dns.TypeA)
		d.Asker, d.Client = &asker, netip.MustParseAddrPort("127.0.0.1:4000")
		if limited {
			d.Source, d.Reason = dnsproxy.FromLimit, "too many"
		}
		r.noteQuestion(d)
	}
	count := func(pod record.Workload) (n int) {
		for _, one := range got {
			if one.Workload == pod {
				n++
			}
		}
		return n
	}
	names := []string{"a", "b", "c"}
	for _, limited := range []bool{false, true} {
		got = nil
		for range 2 {
			for _, name := range names {
				asks(pod(name), "nobody.test", limited)
			}
		}
		r.tell(0)
		for _, name := range names {
			if n := count(pod(name)); n != 2 {
				t.Errorf("of %s there are %d records, want one of its first question and one of its second", name, n)
			}
		}
	}
	for range 2 { // what was counted, and then what was not asked again
		r.tell(0)
	}
	got = nil
	for _, name := range []string{"a", "b"} {
		for i := range 3 * refusedHosts {
			asks(pod(name), fmt.Sprintf("n%d.evil.test", i), false)
		}
	}
	asks(pod("c"), "nobody.test", false)
	if r.len() > refusedHosts {
		t.Errorf("%d names are told apart", r.len())
	}
	r.tell(0)
	for name, want := range map[string]string{"a": "further ones 2559 times", "b": "further ones 2815 times", "c": "nobody.test is not registered"} {
		if !slices.ContainsFunc(got, func(r record.Record) bool { return r.Workload == pod(name) && strings.Contains(r.Reason, want) }) {
			t.Errorf("of %s nothing says %q", name, want)
		}
	}
	if count(node) != 0 {
		t.Errorf("%d records are the node's own", count(node))
	}
	for range 2 {
		r.tell(0)
	}
	for i := range refusedHosts {
		asks(node, fmt.Sprintf("n%d.own.test", i), false)
	}
	if r.len() != refusedHosts || count(node) != refusedHosts {
		t.Errorf("of its own pod %d names are told apart, in %d records", r.len(), count(node))
	}
}

func question(host string, kind uint16) dnsproxy.Decision {
	return dnsproxy.Decision{
		Question: dnsproxy.Question{View: appView, Name: host, Type: kind, Client: netip.MustParseAddrPort("10.0.0.1:4000")},
		Verdict:  dnsproxy.Denied, Source: dnsproxy.FromPolicy, Reason: "not registered",
	}
}

// TestDeniedQuestions: a try is one record, though it asks for A and AAAA; an answer without addresses is recorded by
// what took them; all of a tunnel's questions above the rate share one.
func TestDeniedQuestions(t *testing.T) {
	var got []record.Record
	r := &refusals{
		log: slog.New(slog.DiscardHandler), now: time.Now, origin: record.Record{Proxy: "p", Reporter: record.ReporterSidecar},
		append: func(one record.Record) error { got = append(got, one); return nil },
	}
	r.decides(record.ParseObject("Sidecar/default/narrow"))
	r.noteQuestion(question("nobody.test", dns.TypeA))
	r.noteQuestion(question("nobody.test", dns.TypeAAAA))
	filtered := question("inside.test", dns.TypeA)
	filtered.Filtered, filtered.Source = true, dnsproxy.FromCache
	r.noteQuestion(filtered)
	for i := range 100 {
		limited := question(fmt.Sprintf("%d.tunnel.test", i), dns.TypeTXT)
		limited.Source, limited.Reason = dnsproxy.FromLimit, "too many"
		r.noteQuestion(limited)
	}
	r.tell(0)
	r.noteQuestion(question("nobody.test", dns.TypeA))
	r.tell(0)
	if len(got) != 4 {
		t.Fatalf("%d records: %+v", len(got), got)
	}
	first := got[0]
	if first.Class != record.DNS || first.Verdict != record.Denied || first.Path != record.PathBlackhole || first.Host != "nobody.test" ||
		first.Source != "10.0.0.1:4000" || first.DecidedBy.Name != "narrow" || !strings.Contains(first.Reason, "nobody.test is not registered") {
		t.Errorf("a name: %+v", first)
	}
	for i, want := range map[int]string{1: "too many: not asked, 0.tunnel.test the last", 2: "too many: not asked 99 times, 99.tunnel.test the last"} {
		if got[i].Reason != want || got[i].Path != "" || got[i].DecidedBy.Name != "" {
			t.Errorf("above the rate: %+v, want %s", got[i], want)
		}
	}
	if record.ParseObject("MeshConfig") != (record.Object{}) {
		t.Error("half a name is taken for an object")
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
			notes := make(chan record.Record, 8)
			noted := &refusals{log: slog.New(slog.DiscardHandler), now: time.Now, append: func(r record.Record) error { notes <- r; return nil }}
			c := Config{
				Proxy: bootstrap.Options{Role: role, Namespace: "ns"}, DNSUpstream: []string{upstream}, DNSAddr: "127.0.0.1:0", ResolverAddr: "127.0.0.1:0",
				AllowPrivate: []string{"*.corp.example"}, Log: slog.New(slog.DiscardHandler),
			}
			server, err := c.resolver(prometheus.NewRegistry(), noted, func(name.Defaults) {})
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
				reply, err := dns.Exchange(q, server.Addr("resolver").String())
				if err != nil {
					t.Fatal(err)
				}
				if got := len(reply.Answer) == 0; got != want {
					t.Errorf("%s: %v", host, reply)
				}
				if want {
					if r := <-notes; r.Host+"." != host || r.Destination != "10.0.0.1" {
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
