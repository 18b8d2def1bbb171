package packet

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// pack makes a question with the reference implementation.
func pack(t testing.TB, host string, kind uint16, edit func(*dns.Msg)) []byte {
	t.Helper()
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(host), kind)
	if edit != nil {
		edit(m)
	}
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

func unpack(t testing.TB, wire []byte) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		t.Fatalf("%v\n%s", err, hex.Dump(wire))
	}
	return m
}

func TestParse(t *testing.T) {
	var q Query
	wire := pack(t, "WWW.Example.com", dns.TypeAAAA, func(m *dns.Msg) { m.SetEdns0(4096, true); m.CheckingDisabled = true })
	if err := q.Parse(wire); err != nil {
		t.Fatal(err)
	}
	if Text(q.Name()) != "www.example.com" || string(q.Lower()) != "\x03www\x07example\x03com\x00" {
		t.Errorf("name %q, lower %q", q.Name(), q.Lower())
	}
	if q.Type != dns.TypeAAAA || q.Class != dns.ClassINET || !q.EDNS || !q.DO || !q.CD() || q.UDPSize != 4096 || q.Limit(false) != MaxUDP {
		t.Errorf("%+v", q)
	}
	if want := "\x07\x03\x03www\x07example\x03com\x00\x00\x1c\x00\x01"; string(q.Key(7)) != want {
		t.Errorf("key %q, want %q", q.Key(7), want)
	}
}

func TestParseRefuses(t *testing.T) {
	good := pack(t, "a.test", dns.TypeA, nil)
	change := func(at int, b ...byte) []byte {
		out := append([]byte(nil), good...)
		copy(out[at:], b)
		return out
	}
	for _, c := range []struct {
		name string
		in   []byte
		want error
	}{
		{"nothing", nil, ErrIgnore},
		{"half a header", good[:11], ErrIgnore},
		{"a response", change(2, 0x80), ErrIgnore},
		{"a notify", change(2, 4<<3), ErrNotImplemented},
		{"no question", change(4, 0, 0), ErrFormat},
		{"two questions", change(4, 0, 2), ErrFormat},
		{"an answer", change(6, 0, 1), ErrFormat},
		{"a missing additional record", change(10, 0, 1), ErrFormat},
		{"a name without end", good[:18], ErrFormat},
		{"no type", good[:len(good)-4], ErrFormat},
		{"a compressed name", change(12, 0xc0, 12), ErrFormat},
		{"a label of 64", change(12, 64), ErrFormat},
		{"EDNS 1", pack(t, "a.test", 1, func(m *dns.Msg) { m.SetEdns0(512, false).IsEdns0().SetVersion(1) }), ErrVersion},
		{"EDNS twice", pack(t, "a.test", 1, func(m *dns.Msg) { m.SetEdns0(512, false).SetEdns0(512, false) }), ErrFormat},
	} {
		var q Query
		err := q.Parse(c.in)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
		if !errors.Is(err, ErrIgnore) {
			out := q.Finish(q.Reply(nil, 1, 0), 0, 1, EDENone, 512)
			if m := unpack(t, out); m.Rcode != 1 || m.Id != q.ID || !m.Response {
				t.Errorf("%s: reply %v", c.name, m)
			}
		}
	}
}

func TestReplyIsReadable(t *testing.T) {
	var q Query
	if err := q.Parse(pack(t, "MiXed.test", dns.TypeANY, func(m *dns.Msg) { m.SetEdns0(1232, true) })); err != nil {
		t.Fatal(err)
	}
	out := q.Reply([]byte("xx"), 0, 0)
	out = AppendAddr(out, 2, netip.MustParseAddr("240.240.0.1"), 30)
	out = AppendAddr(out, 2, netip.MustParseAddr("2001:2::1"), 31)
	out = AppendPTR(out, 2, string(AppendName(nil, "HOST.test")), 32)
	m := unpack(t, q.Finish(out, 2, 0, EDEFiltered, 1232)[2:])
	want := []string{"MiXed.test.\t30\tIN\tA\t240.240.0.1", "MiXed.test.\t31\tIN\tAAAA\t2001:2::1", "MiXed.test.\t32\tIN\tPTR\thost.test."}
	for i, w := range want {
		if len(m.Answer) != len(want) || m.Answer[i].String() != w {
			t.Fatalf("answer %v, want %q", m.Answer, want)
		}
	}
	opt := m.IsEdns0()
	if opt == nil || !opt.Do() || len(opt.Option) != 1 || opt.Option[0].(*dns.EDNS0_EDE).InfoCode != EDEFiltered {
		t.Errorf("EDNS %v", opt)
	}
	if got := Addrs(out[2:]); len(got) != 2 || got[1].String() != "2001:2::1" {
		t.Errorf("addresses %v", got)
	}
}

func TestFinishTruncates(t *testing.T) {
	var q Query
	if err := q.Parse(pack(t, "a.test", dns.TypeA, nil)); err != nil {
		t.Fatal(err)
	}
	out := q.Reply(nil, 0, 0)
	for range 40 {
		out = AppendAddr(out, 0, netip.MustParseAddr("240.240.0.1"), 30)
	}
	out = q.Finish(out, 0, 0, EDENone, q.Limit(false))
	if m := unpack(t, out); !m.Truncated || len(m.Answer) != 0 || len(m.Question) != 1 || len(out) > 512 {
		t.Errorf("%d bytes: %v", len(out), m)
	}
}

func TestSealedAnswers(t *testing.T) {
	m := new(dns.Msg)
	m.SetQuestion("www.test.", dns.TypeA)
	m.Response, m.AuthenticatedData, m.Compress = true, true, true
	for _, text := range []string{"www.test. 60 IN CNAME h.test.", "h.test. 10 IN A 192.0.2.1"} {
		rr, _ := dns.NewRR(text)
		m.Answer = append(m.Answer, rr)
	}
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Seal(wire)
	if err != nil {
		t.Fatal(err)
	}
	var q Query
	if err := q.Parse(pack(t, "wWw.test", dns.TypeA, nil)); err != nil {
		t.Fatal(err)
	}
	got := unpack(t, s.Answer(nil, &q, Age{Elapsed: 12}))
	if got.Id != q.ID || got.Question[0].Name != "wWw.test." || got.AuthenticatedData || !got.RecursionAvailable {
		t.Errorf("%v", got)
	}
	if got.Answer[0].Header().Ttl != 48 || got.Answer[1].Header().Ttl != 0 || got.Answer[0].Header().Name != "wWw.test." {
		t.Errorf("%v", got.Answer)
	}
	stale := unpack(t, s.Answer(nil, &q, Age{Elapsed: 12, Stale: 30}))
	if stale.Answer[0].Header().Ttl != 30 || stale.Answer[1].Header().Ttl != 30 {
		t.Errorf("%v", stale.Answer)
	}
	for cut := range len(wire) {
		if _, err := Seal(wire[:cut]); err == nil && cut < len(wire) {
			t.Errorf("sealed %d bytes of %d", cut, len(wire))
		}
	}
}

// FuzzParse holds the parser to the reference: it accepts no question that the reference refuses, and reads the same.
func FuzzParse(f *testing.F) {
	f.Add(pack(f, "www.example.com", dns.TypeA, func(m *dns.Msg) { m.SetEdns0(1232, true) }))
	f.Add(pack(f, ".", dns.TypeNS, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q Query
		err := q.Parse(b)
		if errors.Is(err, ErrIgnore) {
			return
		}
		reply := new(dns.Msg)
		if e := reply.Unpack(q.Finish(q.Reply(nil, 2, 0), 0, 2, EDENoUpstream, 512)); e != nil {
			t.Fatalf("the reply is unreadable: %v", e)
		}
		if err != nil {
			return
		}
		name, _, e := dns.UnpackDomainName(b, headerLen)
		if e != nil || reply.Question[0].Name != name || reply.Question[0].Qtype != q.Type {
			t.Fatalf("name %q (%v), question %v", name, e, reply.Question)
		}
		Text(q.Name())
	})
}

// FuzzAnswer holds the patching to the reference: what a resolver packs, kept and answered, is the same message with
// another id, the name as the client wrote it and shorter TTLs.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		"www.test. 60 IN A 192.0.2.1", "www.test. 0 IN CNAME h.test.", "www.test. 4294967295 IN TXT \"a\" \"b\"",
		"www.test. 300 IN HTTPS 1 . alpn=h2 ipv4hint=192.0.2.1", "test. 300 IN SOA ns.test. admin.test. 1 2 3 4 60",
	} {
		f.Add("www.test.", text, uint16(7), uint32(12), uint32(0))
		f.Add("a.b.test.", text, uint16(0xffff), uint32(1<<31), uint32(30))
	}
	f.Fuzz(func(t *testing.T, host, text string, id uint16, elapsed, stale uint32) {
		if strings.Contains(text, "$") { // directives like $GENERATE are no records
			return
		}
		rr, err := dns.NewRR(text)
		if err != nil || rr == nil || rr.Header().Rrtype == dns.TypeOPT || rr.Header().Name == "" {
			return
		}
		m := new(dns.Msg)
		m.SetQuestion(dns.Fqdn(host), dns.TypeA)
		m.Response, m.RecursionAvailable, m.Compress = true, true, true
		m.Answer, m.Ns = []dns.RR{rr, dns.Copy(rr)}, []dns.RR{dns.Copy(rr)}
		wire, err := m.Pack()
		if err != nil {
			return
		}
		m = new(dns.Msg)
		if m.Unpack(wire) != nil {
			return
		}
		s, err := Seal(wire)
		if err != nil {
			t.Fatalf("%v\n%s", err, hex.Dump(wire))
		}
		question := new(dns.Msg)
		question.Question = m.Question
		question.Id = id
		asked, err := question.Pack()
		if err != nil {
			return
		}
		var q Query
		if q.Parse(asked) != nil {
			return
		}
		got := unpack(t, s.Answer([]byte("xx"), &q, Age{Elapsed: elapsed, Stale: stale})[2:])
		m.Id, m.RecursionDesired = id, false
		for _, rr := range append(append([]dns.RR(nil), m.Answer...), m.Ns...) {
			h := rr.Header()
			if h.Ttl -= min(h.Ttl, elapsed); stale > 0 {
				h.Ttl = stale
			}
		}
		if got.String() != m.String() || s.Rcode() != m.Rcode || len(got.Ns) != 1 {
			t.Errorf("got\n%s\nwant\n%s", got, m)
		}
		if string(asked[headerLen:]) != s.Question() || !s.Answers(asked[headerLen:]) {
			t.Errorf("question %q, want %q", s.Question(), asked[headerLen:])
		}
	})
}

func FuzzSeal(f *testing.F) {
	m := new(dns.Msg)
	m.SetQuestion("www.test.", dns.TypeA)
	rr, _ := dns.NewRR("www.test. 60 IN A 192.0.2.1")
	m.Answer = append(m.Answer, rr)
	wire, _ := m.Pack()
	f.Add(wire)
	f.Fuzz(func(t *testing.T, b []byte) {
		Addrs(b)
		s, err := Seal(b)
		if err != nil {
			return
		}
		var q Query
		if q.Parse(pack(t, "a.test", dns.TypeA, nil)) != nil || s.size() < headerLen+len(q.name) {
			return
		}
		s.Answer(nil, &q, Age{Elapsed: 5})
	})
}

// TestExtendedErrorSaysWhy: the words of an extended error come with it, to who speaks EDNS, as far as there is room.
func TestExtendedErrorSaysWhy(t *testing.T) {
	for _, c := range []struct {
		edns  bool
		limit int
		want  string
	}{{true, 1232, "closed by so-and-so"}, {true, 60, ""}, {false, 1232, ""}} {
		var q Query
		if err := q.Parse(pack(t, "refused.test", dns.TypeA, func(m *dns.Msg) {
			if c.edns {
				m.SetEdns0(1232, false)
			}
		})); err != nil {
			t.Fatal(err)
		}
		q.Said = "closed by so-and-so"
		m := unpack(t, q.Finish(q.Reply(nil, dns.RcodeNameError, 0), 0, dns.RcodeNameError, EDEBlocked, c.limit))
		opt := m.IsEdns0()
		if (opt != nil) != c.edns || m.Truncated {
			t.Fatalf("%+v: %s", c, m)
		}
		if opt == nil {
			continue
		}
		ede, ok := opt.Option[0].(*dns.EDNS0_EDE)
		if !ok || ede.InfoCode != EDEBlocked || ede.ExtraText != c.want {
			t.Errorf("%+v: %v", c, opt)
		}
	}
}
