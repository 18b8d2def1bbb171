package cache

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/packet"
)

func entry(t testing.TB, key string, room int) *Entry {
	t.Helper()
	m := new(dns.Msg)
	m.SetQuestion("a.test.", dns.TypeTXT)
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	s, err := packet.Seal(append(make([]byte, 0, len(wire)+room), wire...))
	if err != nil {
		t.Fatal(err)
	}
	return NewEntry([]byte(key), s)
}

func TestBoundAndScan(t *testing.T) {
	const bound = 1 << 20
	c := New(bound)
	for i := range 50 { // asked twice: protected
		c.Put(entry(t, fmt.Sprint("hot", i), 200))
		c.Get(fmt.Append(nil, "hot", i))
	}
	for i := range 100_000 {
		c.Put(entry(t, fmt.Sprint("scan", i), 200))
	}
	stats := c.Stats()
	if stats.Bytes > bound || stats.Evictions == 0 || stats.Entries < 500 {
		t.Errorf("%+v", stats)
	}
	for i := range 50 {
		if c.Get(fmt.Append(nil, "hot", i)) == nil {
			t.Errorf("hot%d was pushed out by a scan", i)
		}
	}
	c.Flush()
	if stats := c.Stats(); stats.Entries != 0 || stats.Bytes != 0 {
		t.Errorf("after Flush: %+v", stats)
	}
}

func TestAllHotStaysBounded(t *testing.T) {
	const bound = 1 << 20
	c := New(bound)
	for i := range 20_000 {
		c.Put(entry(t, fmt.Sprint(i), 200))
		c.Get(fmt.Append(nil, i))
	}
	if stats := c.Stats(); stats.Bytes > bound {
		t.Errorf("%+v", stats)
	}
}

func TestReplaceAndOversize(t *testing.T) {
	c := New(MinBytes)
	first, second := entry(t, "a", 10), entry(t, "a", 20)
	c.Put(first)
	c.Get([]byte("a"))
	c.Put(second)
	if c.Get([]byte("a")) != second || c.Stats().Entries != 1 || c.Stats().Bytes != second.size() {
		t.Errorf("%+v", c.Stats())
	}
	c.Put(entry(t, "big", MinBytes))
	if c.Get([]byte("big")) != nil {
		t.Error("an entry larger than a shard was kept")
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
				c.Get(fmt.Append(nil, (i+worker)%300))
			}
		})
	}
	wg.Wait()
}
