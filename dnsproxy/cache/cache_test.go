package cache

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/packet"
)

// key is as packet.Query.Key makes it.
func key(name string) []byte {
	return append(packet.AppendName([]byte{1, 0}, name), 0, 16, 0, 1)
}

// entry is an answer for key(name) of more than size bytes.
func entry(t testing.TB, name string, size int) *Entry {
	t.Helper()
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), dns.TypeTXT)
	text := &dns.TXT{Hdr: dns.RR_Header{Name: dns.Fqdn(name), Rrtype: dns.TypeTXT, Class: dns.ClassINET}}
	for ; size > 0; size -= 200 {
		text.Txt = append(text.Txt, strings.Repeat("x", min(size, 200)))
	}
	if len(text.Txt) > 0 {
		m.Answer = append(m.Answer, text)
	}
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	s, err := packet.Seal(wire)
	if err != nil {
		t.Fatal(err)
	}
	return NewEntry(key(name), s)
}

// TestFlood: names that nobody asks for again do not push out those that are asked for, whether the flood comes after
// them or in between, and however long it is.
func TestFlood(t *testing.T) {
	const bound = 1 << 20
	for _, every := range []int{0, 10} {
		t.Run(fmt.Sprintf("hot names are asked for every %d", every), func(t *testing.T) {
			c := New(bound)
			for i := range 50 { // asked twice: protected
				c.Put(entry(t, fmt.Sprint("hot", i), 200))
				c.Get(key(fmt.Sprint("hot", i)))
			}
			for i := range 30_000 {
				c.Put(entry(t, fmt.Sprint("flood", i), 200))
				if every > 0 && i%every == 0 {
					c.Get(key(fmt.Sprint("hot", i/every%50)))
				}
			}
			stats := c.Stats()
			if stats.Bytes > bound || stats.Evictions == 0 || stats.Entries < 500 {
				t.Errorf("%+v", stats)
			}
			for i := range 50 {
				if c.Get(key(fmt.Sprint("hot", i))) == nil {
					t.Errorf("hot%d was pushed out by a flood", i)
				}
			}
			c.Flush()
			if stats := c.Stats(); stats.Entries != 0 || stats.Bytes != 0 {
				t.Errorf("after Flush: %+v", stats)
			}
		})
	}
}

// TestFloodAfterRefresh: a hot answer that has expired and was fetched again is as well protected as the one before.
func TestFloodAfterRefresh(t *testing.T) {
	c := New(1 << 20)
	c.Put(entry(t, "hot", 200))
	c.Get(key("hot"))
	for i := range 20_000 {
		if i%1000 == 0 {
			c.Put(entry(t, "hot", 100))
		}
		c.Put(entry(t, fmt.Sprint("flood", i), 200))
	}
	if c.Get(key("hot")) == nil {
		t.Error("pushed out")
	}
}

// TestWhatGotColdGoes: what was hot once makes place for what is hot now.
func TestWhatGotColdGoes(t *testing.T) {
	c := New(1 << 20)
	for _, generation := range []string{"old", "new"} {
		for i := range 20_000 {
			name := fmt.Sprint(generation, i%1000)
			if c.Get(key(name)) == nil {
				c.Put(entry(t, name, 200))
			}
		}
	}
	for i := range 1000 {
		if c.Get(key(fmt.Sprint("new", i))) == nil {
			t.Fatalf("new%d is not kept", i)
		}
	}
}

func TestAllHotStaysBounded(t *testing.T) {
	const bound = 1 << 20
	c := New(bound)
	for i := range 20_000 {
		c.Put(entry(t, fmt.Sprint(i), 200))
		c.Get(key(fmt.Sprint(i)))
	}
	if stats := c.Stats(); stats.Bytes > bound {
		t.Errorf("%+v", stats)
	}
}

func TestReplaceAndOversize(t *testing.T) {
	c := New(MinBytes)
	first, second := entry(t, "a", 10), entry(t, "a", 20)
	c.Put(first)
	c.Get(key("a"))
	c.Put(second)
	if c.Get(key("a")) != second || c.Stats().Entries != 1 || c.Stats().Bytes != second.size() {
		t.Errorf("%+v", c.Stats())
	}
	c.Put(entry(t, "big", 60_000))
	if c.Get(key("big")) != nil {
		t.Error("an entry larger than a quarter of a shard was kept")
	}
}

// TestKeys: an answer is found by its own question and prefix only.
func TestKeys(t *testing.T) {
	c := New(MinBytes)
	e := entry(t, "a.test", 10)
	c.Put(e)
	other := key("a.test")
	other[0] = 2
	for _, k := range [][]byte{nil, {1, 0}, other, key("b.test"), key("test"), append(key("a.test"), 0)} {
		if c.Get(k) != nil || e.matches(k) {
			t.Errorf("found by %q", k)
		}
	}
	if !e.matches(key("a.test")) || c.Get(key("a.test")) != e {
		t.Error("not found")
	}
}

func TestAge(t *testing.T) {
	e := entry(t, "a", 0)
	e.Stored, e.Expires = 10*time.Second, 20*time.Second
	for now, want := range map[time.Duration]packet.Age{
		10 * time.Second: {}, 15900 * time.Millisecond: {Elapsed: 5}, 20 * time.Second: {Stale: 30}, 99 * time.Second: {Stale: 30}, 0: {},
	} {
		if got := e.Age(now, 30); got != want {
			t.Errorf("at %v: %+v, want %+v", now, got, want)
		}
	}
	e.Defer(30 * time.Second)
	if !e.Deferred(29*time.Second) || e.Deferred(30*time.Second) || !e.ClaimRefresh() || e.ClaimRefresh() {
		t.Error("defer or refresh")
	}
}

func TestConcurrentUse(t *testing.T) {
	c := New(MinBytes)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				c.Put(entry(t, fmt.Sprint(i%300), i%500))
				c.Get(key(fmt.Sprint((i + worker) % 300)))
			}
		})
	}
	wg.Wait()
}

func BenchmarkGet(b *testing.B) {
	c := New(64 << 20)
	keys := make([][]byte, 100_000)
	for i := range keys {
		name := fmt.Sprintf("n%d.bench.example", i)
		keys[i] = key(name)
		c.Put(entry(b, name, 0))
		c.Get(keys[i])
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if c.Get(keys[i*7919%len(keys)]) == nil {
			b.Fatal("not kept")
		}
	}
}
