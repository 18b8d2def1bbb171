package dnsproxy

import (
	"fmt"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/name"
)

// TestOnlyWhatIsAskedForIsResolved: of thousands of registered hosts only those that somebody uses cost a question
// upstream, and a fetch ahead of time is for those that are asked for while their answer is old, once.
func TestOnlyWhatIsAskedForIsResolved(t *testing.T) {
	const registered, used = 5_000, 50
	host := func(i int) string { return fmt.Sprintf("h%d.test", i) }
	var records []string
	var names []name.Name
	for i := range registered {
		names = append(names, named(host(i), 0)) // registered by name alone: the addresses are upstream's
		if i < used {
			records = append(records, host(i)+". 100 IN A 192.0.2.1")
		}
	}
	a, c := startAuthority(t, records...), newClock()
	s := serve(t, unhurried(Config{Upstreams: []string{a.addr}, Prefetch: true, Now: c.Now, Views: []View{{Name: "app", Names: true}}}))
	if err := s.Names().Apply(names, nil); err != nil {
		t.Fatal(err)
	}
	s.Names().SetReady()
	asked := func() (sum int) {
		for i := range registered {
			sum += a.count(host(i) + ". A")
		}
		return sum
	}
	for range 3 {
		for i := range used {
			ask(t, s, "app", host(i), dns.TypeA)
		}
	}
	if got := asked(); got != used {
		t.Errorf("%d questions upstream for %d names in use", got, used)
	}
	c.advance(95 * time.Second) // the last tenth of their TTL
	if got := asked(); got != used {
		t.Errorf("%d questions upstream, though nobody asked", got)
	}
	for range 3 {
		ask(t, s, "app", host(0), dns.TypeA)
	}
	eventually(t, "the hot name is fetched ahead of time", func() bool { return a.count(host(0)+". A") == 2 })
	c.advance(time.Hour)
	if got := asked(); got != used+1 {
		t.Errorf("%d questions upstream, want one for each name in use and one ahead of time", got)
	}
}
