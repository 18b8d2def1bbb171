package upstream

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/hostile"
)

func networks(asked []hostile.Asked) (out string) {
	for _, a := range asked {
		out += a.Network + " "
	}
	return out
}

// TestCaseIsNotKept: such a server is found out by TCP, and then asked without.
func TestCaseIsNotKept(t *testing.T) {
	behave := hostile.LowerCase(hostile.Answer(truth))
	for name, c := range map[string]struct {
		tcp  hostile.Behaviour
		want string
	}{
		"TCP works":            {behave, "udp tcp udp udp "},
		"TCP does not":         {hostile.Hangup, "udp tcp udp udp udp "},
		"TCP keeps it: forged": {hostile.Answer(truth), "udp tcp udp tcp udp tcp "},
	} {
		t.Run(name, func(t *testing.T) {
			p := hostile.Start(t, hostile.Config{UDP: behave, TCP: c.tcp})
			client := client(t, Config{Servers: of(p)})
			upperCase(client)
			for range 3 {
				r, err := client.Exchange(t.Context(), question)
				right(t, r, err)
			}
			if got := networks(p.Asked("")); got != c.want {
				t.Errorf("asked by %s, want %s", got, c.want)
			}
		})
	}
}

// upperCase makes a client ask in upper case. At random, the case may be the lower one by chance.
func upperCase(c *Client) {
	for _, p := range *c.peers.Load() {
		p.coins = func(b []byte) {
			for i := range b {
				b[i] = 0xff
			}
		}
	}
}

func TestCookies(t *testing.T) {
	behave := hostile.Cookies("0123456789abcdef", truth)
	p := hostile.Start(t, hostile.Config{UDP: behave, TCP: behave})
	c := client(t, Config{Servers: of(p)})
	for range 2 {
		r, err := c.Exchange(t.Context(), question)
		right(t, r, err)
	}
	if got := networks(p.Asked("")); got != "udp udp udp " {
		t.Errorf("asked by %s: once more for the cookie, then with it", got)
	}
}

// TestCookieIsExpected: once a server has had cookies, an answer without is asked again by TCP.
func TestCookieIsExpected(t *testing.T) {
	with, without := hostile.Cookies("0123456789abcdef", truth), hostile.Answer(hostile.Lie)
	var forge atomic.Bool
	p := hostile.Start(t, hostile.Config{TCP: with, UDP: func(w *hostile.Writer, req *dns.Msg) {
		if forge.Load() {
			without(w, req)
		} else {
			with(w, req)
		}
	}})
	c := client(t, Config{Servers: of(p)})
	r, err := c.Exchange(t.Context(), question)
	right(t, r, err)
	forge.Store(true)
	r, err = c.Exchange(t.Context(), question)
	right(t, r, err)
	if got := networks(p.Asked("")); got != "udp udp udp tcp " {
		t.Errorf("asked by %s", got)
	}
}

func TestUnmix(t *testing.T) {
	for _, c := range [][4]string{
		{"wWw.TeSt.", "wWw.TeSt.", "www.test.", "www.test."},
		{"Other.TeSt.", "wWw.TeSt.", "www.test.", "Other.test."},
		{"x.wWw.TeSt.", "wWw.TeSt.", "www.test.", "x.www.test."},
		{"Other.Example.", "wWw.TeSt.", "www.test.", "Other.Example."},
		{".", ".", ".", "."},
	} {
		if got := unmix(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("unmix(%s, %s, %s) = %s, want %s", c[0], c[1], c[2], got, c[3])
		}
	}
}

func unpacked(t testing.TB, a *ask) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(a.wire); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestQuestionsAreWhatTheLibraryWouldSend: the library reads them, and writes the same bytes again.
func TestQuestionsAreWhatTheLibraryWouldSend(t *testing.T) {
	long := strings.Repeat("abcdefg.", 31) + "abc."
	for _, transport := range []Transport{UDP, TLS} {
		p := newPeer(Server{Transport: transport}, nil, &usualPace)
		for _, name := range []string{".", "www.test.", `a\.b\255\000c.test.`, long} {
			for _, how := range []trait{0, edns, mixed, cookie, edns | mixed | cookie} {
				q := Question{Name: name, Type: dns.TypeHTTPS, Class: dns.ClassINET, DO: how&mixed != 0, CD: how&cookie != 0}
				p.server = strings.Repeat("ab", 32) // the longest
				a := p.compose(q, how)
				m := unpacked(t, a)
				again, err := m.Pack()
				if err != nil || !bytes.Equal(again, a.wire) {
					t.Errorf("%s, %b: %x is not %x (%v)", name, how, a.wire, again, err)
				}
				opt := m.IsEdns0()
				if m.Id != a.id || !m.RecursionDesired || !m.AuthenticatedData || m.CheckingDisabled != q.CD || len(m.Question) != 1 ||
					m.Question[0] != (dns.Question{Name: a.sent, Qtype: q.Type, Qclass: q.Class}) || (opt != nil) != (how&edns != 0) {
					t.Errorf("%s, %b: %v", name, how, m)
				}
				if opt != nil && (opt.UDPSize() != udpSize || opt.Do() != q.DO || transport == TLS && len(a.wire)%paddedTo != 0 || cookieOf(m) != a.cookie) {
					t.Errorf("%s, %b: %v", name, how, m)
				}
			}
		}
	}
	p := newPeer(Server{}, nil, &usualPace)
	if a := p.compose(Question{Name: strings.Repeat("a", 64) + "."}, edns); a.wire != nil {
		t.Errorf("a label that is too long is sent as %x", a.wire)
	}
	if _, err := p.exchange(t.Context(), time.Now().Add(time.Minute), Question{Name: strings.Repeat("a", 64) + "."}); !errors.Is(err, errName) {
		t.Errorf("asking for it: %v", err)
	}
}

func FuzzMatch(f *testing.F) {
	p := newPeer(Server{}, nil, &usualPace)
	a := p.compose(question, edns|mixed|cookie)
	f.Add(hostile.Reply(unpacked(f, a), truth, nil)[2:])
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append([]byte{byte(a.id >> 8), byte(a.id)}, b...)
		m, err := p.match(b, a, false)
		if err != nil || Scrub(m, question) != nil {
			return
		}
		if len(m.Question) == 1 && m.Question[0].Name != question.Name {
			t.Fatalf("took %v", m)
		}
	})
}
