package ingest

import (
	"fmt"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestClientsLeaveEachOtherRoom: what comes to somebody's proxy counts against him, and of that one client leaves half to others; alone it has all. What is dropped
// says whose it was.
func TestClientsLeaveEachOtherRoom(t *testing.T) {
	const rate = 2 // 120 at once
	of := map[string]func(r *record.Record, client string){
		"ingress": func(r *record.Record, client string) {
			r.Workload.Principal, r.Reporter, r.Direction, r.Source = "spiffe://ingress", record.ReporterGateway, record.Inbound, client+":4711"
		},
		"forward proxy": func(r *record.Record, client string) {
			r.Workload.Principal, r.Reporter, r.Direction, r.Source = "spiffe://up", record.ReporterProxy, record.Outbound, client+":4711"
		},
		"before a pod, a certificate": func(r *record.Record, client string) {
			r.Workload, r.DestinationWorkload.Principal = record.Workload{}, "spiffe://pod"
			r.Reporter, r.Direction, r.Claim, r.Source = record.ReporterDestination, record.Lateral, "spiffe://"+client, "10.0.0.1:1"
		},
		"before a pod, plain": func(r *record.Record, client string) {
			r.Workload, r.DestinationWorkload.Principal = record.Workload{}, "spiffe://pod"
			r.Reporter, r.Direction, r.Source = record.ReporterDestination, record.Lateral, client+":1"
		},
	}
	for what, edit := range of {
		t.Run(what, func(t *testing.T) {
			hand := clock.At(time.Unix(1_900_000_000, 0))
			b := newBudgets(func() float64 { return rate }, hand.Now)
			send := func(client string, n int) (taken int) {
				for i := range n {
					r := rec(i)
					if edit(&r, client); b.spend(&r, spent{}) {
						taken++
					}
				}
				return taken
			}
			if n := send("192.0.2.1", 500); n != 60 {
				t.Errorf("the loud one has %d of 120", n)
			}
			if n := send("192.0.2.2", 50); n != 50 {
				t.Errorf("of another's 50 %d are kept", n)
			}
			gaps, _ := b.owed()
			if len(gaps) != 1 || gaps[0].Count != 440 {
				t.Fatalf("gaps %+v", gaps)
			}
			if g := gaps[0].Record; g.Source == "" || g.DestinationWorkload.Principal == "" && g.Workload.Principal == "" {
				t.Errorf("nobody's gap: %+v", g)
			}
			alone := 0
			for range 1000 { // seconds in which there is nobody else
				hand.Advance(time.Second)
				alone += send("192.0.2.1", 10)
			}
			if alone < 1900 {
				t.Errorf("alone it has %d of 2,000", alone)
			}
		})
	}
}

// TestPodsDoNotShareABudget: what came to one pod leaves the records of what came to others alone.
func TestPodsDoNotShareABudget(t *testing.T) {
	b := newBudgets(func() float64 { return 1 }, func() time.Time { return time.Unix(1_900_000_000, 0) })
	send := func(to string, n int) (taken int) {
		for i := range n {
			r := rec(i)
			r.Workload, r.DestinationWorkload.Principal = record.Workload{}, to
			r.Reporter, r.Direction, r.Claim = record.ReporterDestination, record.Lateral, fmt.Sprint("spiffe://client/", i)
			if b.spend(&r, spent{}) {
				taken++
			}
		}
		return taken
	}
	if n := send("spiffe://loud", 1000); n != 60 {
		t.Errorf("%d of 60", n)
	}
	if n := send("spiffe://quiet", 10); n != 10 {
		t.Errorf("of the other pod's 10 records %d are kept", n)
	}
}

// TestManyClients: those that are told apart are bounded, and those who come late share.
func TestManyClients(t *testing.T) {
	hand := clock.At(time.Unix(1_900_000_000, 0))
	b := newBudgets(func() float64 { return 10 }, hand.Now)
	for i := range maxClients + maxClients/2 {
		r := rec(i)
		r.Workload.Principal, r.Direction, r.Source = fmt.Sprint("spiffe://", i%100), record.Inbound, fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)
		b.spend(&r, spent{})
	}
	most := 0
	for _, one := range b.of {
		most = max(most, len(one.clients))
	}
	if b.clients > maxClients+100 || most > maxClientsOfOne+1 {
		t.Errorf("%d clients, %d of one", b.clients, most)
	}
	hand.Advance(time.Hour)
	for i := range 100 {
		r := rec(i)
		r.Workload.Principal, r.Direction, r.Source = fmt.Sprint("spiffe://", i), record.Inbound, "10.99.0.1:1"
		b.spend(&r, spent{})
	}
	b.owed() // who still has something to tell stays
	b.sweep(hand.Now().Add(time.Hour), 10)
	if b.clients != 0 || len(b.of) != 0 {
		t.Errorf("%d clients and %d identities after hours of rest", b.clients, len(b.of))
	}
}

func TestNetwork(t *testing.T) {
	for source, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64", "127.0.0.1:9": "", "[::1]:9": "", "": "", "x": "",
	} {
		if got := network(source); got != want {
			t.Errorf("%q is %q, want %q", source, got, want)
		}
	}
}
