package dnsproxy

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/name"
)

// The paths that a question takes without waiting: none of them may allocate.
func BenchmarkQuick(b *testing.B) {
	a := startAuthority(b, "www.test. 300 IN A 192.0.2.1", "www.test. 300 IN A 192.0.2.2")
	s := serve(b, Config{Upstreams: []string{a.addr}, Views: []View{{Name: "app", Names: true}}})
	aliased := named("external.com", 30, "240.240.0.1")
	aliased.Aliases = []string{"other.com"}
	if err := s.Names().Apply([]name.Name{aliased, named("*.example.com", 30, "240.240.0.2")}, nil); err != nil {
		b.Fatal(err)
	}
	s.Names().SetReady()
	for _, c := range []struct{ name, host string }{
		{"cache", "www.test."}, {"nxdomain", "nothing.test."}, {"table", "external.com."}, {"alias", "other.com."}, {"wildcard", "a.b.c.example.com."},
	} {
		b.Run(c.name, func(b *testing.B) {
			ask(b, s, "app", c.host, dns.TypeA)
			req := new(dns.Msg)
			req.SetQuestion(c.host, dns.TypeA)
			req.SetEdns0(1232, false)
			msg, err := req.Pack()
			if err != nil {
				b.Fatal(err)
			}
			var q call
			out := make([]byte, 0, 4096)
			v, client := s.view("app"), netip.MustParseAddrPort("127.0.0.1:1")
			b.ReportAllocs()
			for b.Loop() {
				q = call{client: client, start: time.Now()}
				if _, ok := v.accept(&q, msg, out); ok {
					b.Fatal("not accepted")
				}
				if _, ok := v.quick(&q, out); !ok {
					b.Fatal("not answered")
				}
			}
		})
	}
}

// A question that goes upstream, to an authority in the same process: its share is in the figures.
func BenchmarkMiss(b *testing.B) {
	a := startAuthority(b)
	answer := record(b, "name.test. 300 IN A 192.0.2.1").(*dns.A)
	a.answerWith(func(w dns.ResponseWriter, req *dns.Msg) bool {
		m, rr := new(dns.Msg), *answer
		m.SetReply(req)
		rr.Hdr.Name = req.Question[0].Name
		m.Answer = []dns.RR{&rr}
		return w.WriteMsg(m) == nil
	})
	s := serve(b, Config{Upstreams: []string{a.addr}})
	v, client := s.view("resolver"), netip.MustParseAddrPort("127.0.0.1:1")
	out := make([]byte, 0, 4096)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		req := new(dns.Msg)
		req.SetQuestion(fmt.Sprintf("n%d.test.", i), dns.TypeA)
		msg, err := req.Pack()
		if err != nil {
			b.Fatal(err)
		}
		q := call{client: client, start: time.Now()}
		if _, ok := v.accept(&q, msg, out); ok {
			b.Fatal("not accepted")
		}
		if _, ok := v.quick(&q, out); ok {
			b.Fatal("answered from memory")
		}
		if answer := v.slow(b.Context(), &q, out); answer[3]&0xf != 0 {
			b.Fatalf("code %d", answer[3]&0xf)
		}
	}
}

// One host changes in a table of many: the cost must stay far below the table's.
func BenchmarkApplyOne(b *testing.B) {
	for _, size := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var names []name.Name
			for i := range size {
				names = append(names, named(fmt.Sprintf("h%d.test", i), 30, fmt.Sprintf("240.240.%d.%d", i/256%256, i%256)))
			}
			table := newTable()
			if err := table.Apply(names, nil); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_ = table.Apply(names[i%size:i%size+1], nil)
			}
		})
	}
}

// BenchmarkNames is what a name of two addresses takes in every pod's memory, and what one more costs among many.
func BenchmarkNames(b *testing.B) {
	const many = 10000
	entry := func(i int) name.Name {
		return named(fmt.Sprintf("h-%05d.many.test", i), 0, fmt.Sprintf("240.240.%d.%d", i>>8, i&255), fmt.Sprintf("2001:2::%x", i))
	}
	all := make([]name.Name, many)
	for i := range all {
		all[i] = entry(i)
	}
	before, table := heap(), newTable()
	if err := table.Apply(all, nil); err != nil {
		b.Fatal(err)
	}
	held := heap() - before
	for b.Loop() {
		if err := table.Apply([]name.Name{entry(many)}, nil); err != nil {
			b.Fatal(err)
		}
		if err := table.Apply(nil, []string{entry(many).Host}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(held)/many, "B/name")
	runtime.KeepAlive(all)
}

// heap is how many bytes are reachable.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
