package story

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

const secondFile = "second.yaml"

// changeWithin is how long a change of the directory may take to the traffic, on a machine with much else to do.
const changeWithin = 2 * time.Minute

// secondEntry: a ServiceEntry is written and removed while requests run, and while two connections are open all the
// time.
func secondEntry(ctx context.Context, s *Scene) (err error) {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	if _, err := s.policy(ctx, "REGISTRY_ONLY"); err != nil {
		return err
	}
	if s.Config.Has(secondFile) {
		if err := s.Config.Remove(secondFile); err != nil {
			return err
		}
	}
	before, err := s.processes()
	if err != nil {
		return err
	}
	var open []*stream
	defer func() {
		for _, st := range open {
			st.close()
		}
	}()
	for _, scheme := range []string{"http", "https"} {
		st, err := s.openStream(ctx, scheme, externalHost)
		if err != nil {
			return err
		}
		open = append(open, st)
	}
	traffic := s.startProbe(ctx, externalHost)
	err = s.comesAndGoes(ctx, open)
	requests, failed := traffic.finish()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	after, err := s.processes()
	if err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("a process was restarted: %s before, %s now", before, after)
	}
	s.show("meanwhile: %d requests on new connections, none failed; 2 open connections went on; no process restarted", requests)
	return nil
}

// comesAndGoes writes and removes the second entry.
func (s *Scene) comesAndGoes(ctx context.Context, open []*stream) error {
	if _, err := s.becomes(ctx, secondHost, false); err != nil {
		return fmt.Errorf("before it is registered: %w", err)
	}
	if err := s.Config.Write(secondFile, s.entry("second", secondHost)); err != nil {
		return err
	}
	took, err := s.becomes(ctx, secondHost, true)
	if err != nil {
		return err
	}
	s.show("ServiceEntry %s written: reachable after %s", secondHost, took.Round(10*time.Millisecond))
	path := "/" + token()
	reply, err := s.get(ctx, s.url("http", secondHost, path))
	if err == nil {
		err = reply.must()
	}
	if err != nil {
		return err
	}
	seen, err := s.sawOnce(path)
	if err != nil {
		return err
	}
	if seen.SNI != secondHost || seen.Local.Addr() != s.second {
		return fmt.Errorf("the server saw %s, want SNI %s at %s", seen, secondHost, s.second)
	}
	s.expect(want{
		what: "the request to the second host", host: secondHost, urlPath: path, status: 200,
		verdict: record.Allowed, path: record.PathGateway, reporter: record.ReporterGateway,
	})
	if err := flow(ctx, open); err != nil {
		return err
	}
	if err := s.Config.Remove(secondFile); err != nil {
		return err
	}
	if took, err = s.becomes(ctx, secondHost, false); err != nil {
		return err
	}
	s.show("ServiceEntry %s removed: closed after %s", secondHost, took.Round(10*time.Millisecond))
	return flow(ctx, open)
}

func flow(ctx context.Context, open []*stream) error {
	for _, st := range open {
		if err := st.flows(ctx); err != nil {
			return err
		}
	}
	return nil
}

// becomes waits until the host is open, or closed, by HTTP and by HTTPS.
func (s *Scene) becomes(ctx context.Context, host string, open bool) (took time.Duration, err error) {
	began := time.Now()
	err = world.Within(ctx, changeWithin, func() error {
		for _, scheme := range []string{"http", "https"} {
			reply, err := s.get(ctx, s.url(scheme, host, "/"))
			if err != nil {
				return err
			}
			if reply.OK() != open {
				return fmt.Errorf("%s should be open: %v, but is not: %s", host, open, reply)
			}
		}
		return nil
	})
	return time.Since(began), err
}

// processes names the programs that run with what runs below them, so that a restart shows.
func (s *Scene) processes() (string, error) {
	var b string
	for _, p := range s.programs() {
		below, err := world.Descendants(p.PID())
		if err != nil {
			return "", err
		}
		b += fmt.Sprintf("[%s (%d) %v]", p.Name, p.PID(), below)
	}
	return b, nil
}

// dnsFollowed: while a record's TTL lasts the gateway's cache answers; after a change and the TTL, requests go to the
// new address.
func dnsFollowed(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	s.Outside.Set(externalHost, ttl, s.external)
	defer s.Outside.Set(externalHost, ttl, s.external)
	if _, err := s.reaches(ctx, s.external); err != nil {
		return err
	}
	const window = 2 * ttl
	began := time.Now()
	traffic := s.startProbe(ctx, externalHost)
	defer traffic.stop()
	const enough = 16 // requests for that to show something
	if err := world.Within(ctx, window+time.Minute, func() error {
		if n := traffic.requests(); n < enough || time.Since(began) < window {
			return fmt.Errorf("%d requests in %s", n, time.Since(began))
		}
		return nil
	}); err != nil {
		return err
	}
	asked := len(s.gatewayAsked(began))
	requests, took := traffic.requests(), time.Since(began).Round(100*time.Millisecond)
	// Once a TTL, or a tenth of it sooner; at the window's edges once more; and again where an answer came late on a busy machine.
	if most := 2*int(took/ttl) + 2; asked > most || asked == 0 {
		return fmt.Errorf("the gateway asked the authority %d times in %s for %d requests, want 1 to %d with a TTL of %s", asked, took, requests, most, ttl)
	}
	s.show("TTL %s: %d requests in %s, the gateway asked upstream %d times", ttl, requests, took, asked)

	s.Outside.Set(externalHost, ttl, s.moved)
	followed, err := s.reaches(ctx, s.moved)
	if err != nil {
		return err
	}
	if _, err := traffic.finish(); err != nil {
		return err
	}
	s.show("record changed to %s: followed by all requests after %s", s.moved, followed.Round(100*time.Millisecond))
	return nil
}

// followWithin is what a change may take: the TTL, some time for Envoy to ask again, and the life of a kept connection. Where the authority answers late, on a machine with much
// else to do, the resolver says what it knew, for half a minute, and does not ask again for as long (dnsproxy.Config, StaleTTL and StaleRetry).
const followWithin = ttl + 4*time.Minute

// settledAfter is how many requests of each kind in a row make sure that none goes elsewhere: each of Envoy's workers
// keeps connections of its own.
const settledAfter = 5

// reaches waits until all requests, of both kinds, arrive at the address.
func (s *Scene) reaches(ctx context.Context, addr netip.Addr) (took time.Duration, err error) {
	began := time.Now()
	err = world.Within(ctx, followWithin, func() error {
		for i := range 2 * settledAfter {
			scheme := []string{"http", "https"}[i%2]
			seen, err := s.whereTo(ctx, scheme)
			if err != nil {
				return err
			}
			if seen.Local.Addr() != addr {
				return fmt.Errorf("%s requests still go to %s, want %s", scheme, seen.Local.Addr(), addr)
			}
		}
		return nil
	})
	return time.Since(began), err
}

// whereTo makes a request to the external host and gives what its server saw.
func (s *Scene) whereTo(ctx context.Context, scheme string) (outside.Sighting, error) {
	path := "/" + token()
	reply, err := s.get(ctx, s.url(scheme, externalHost, path))
	if err == nil {
		err = reply.must()
	}
	if err != nil {
		return outside.Sighting{}, err
	}
	return s.sawOnce(path)
}

// gatewayAsked lists the gateway's questions for the external host's IPv4 address since then.
func (s *Scene) gatewayAsked(since time.Time) []outside.Query {
	return s.Outside.Queries(func(q outside.Query) bool {
		return q.Name == externalHost && q.Type == "A" && q.Time.After(since) &&
			(!s.Namespaced() || q.Peer == world.GatewayAddr)
	})
}
