package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/sallyport/sallyport/dnsproxy"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// Bounds of what refused answers may write: a name that is asked for all day makes one record a minute.
const (
	refusalsEvery = time.Minute
	refusedHosts  = 1024 // told apart at a time; further ones share a record
)

// refusals turns the addresses that the resolver took out of answers into audit records.
type refusals struct {
	log    *slog.Logger
	append func(record.Record) error
	origin record.Record // who reports
	now    func() time.Time

	mu    sync.Mutex
	hosts map[string]*refused
}

// refused is a host whose last record is less than a minute old, and what happened since.
type refused struct {
	told  time.Time
	count int // since told
	last  netip.Addr
}

// note takes one refusal: the first of a host is recorded at once.
func (r *refusals) note(refusal dnsproxy.Refusal) {
	addr := refusal.Addresses[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hosts == nil {
		r.hosts = map[string]*refused{}
	}
	host := refusal.Host
	if r.hosts[host] == nil && len(r.hosts) >= refusedHosts {
		host = "" // for all others
	}
	if known := r.hosts[host]; known != nil {
		known.count++
		known.last = addr
		return
	}
	r.hosts[host] = &refused{told: r.now(), last: addr}
	r.record(host, addr, 1)
}

// run writes, until ctx ends, what came again; at the end all of it.
func (r *refusals) run(ctx context.Context) {
	tick := time.NewTicker(refusalsEvery / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			r.tell(0)
			return
		case <-tick.C:
			r.tell(refusalsEvery)
		}
	}
}

// tell writes a record for each host that was refused again, and forgets those that were not, when their last record
// is older than age.
func (r *refusals) tell(age time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for host, known := range r.hosts {
		switch {
		case now.Sub(known.told) < age:
		case known.count == 0:
			delete(r.hosts, host)
		default:
			r.record(host, known.last, known.count)
			known.told, known.count = now, 0
		}
	}
}

// len is how many hosts have a record that is not much older than a minute.
func (r *refusals) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.hosts)
}

func (r *refusals) record(host string, addr netip.Addr, count int) {
	one := r.origin
	one.Time, one.Class, one.Verdict, one.Protocol = r.now(), record.DNS, record.Denied, "dns"
	if one.Path = record.PathGateway; one.Reporter == record.ReporterSidecar {
		one.Path = record.PathDirect // what leaves by a gateway is not resolved here
	}
	one.Host, one.Destination = host, addr.String()
	one.Reason = reasonOf(host, addr, count)
	if err := r.append(one); err != nil {
		r.log.Error("a refused DNS answer cannot be recorded", "host", host, "address", addr, "err", err)
	}
}

func reasonOf(host string, addr netip.Addr, count int) string {
	if host == "" {
		return fmt.Sprintf("more than %d names resolve to addresses that are not public, the last to %s (%s): refused %d times", refusedHosts, addr, kindOf(addr), count)
	}
	times := ""
	if count > 1 {
		times = fmt.Sprintf(" %d times", count)
	}
	return fmt.Sprintf("%s resolves to %s (%s), which is not a public address: refused%s; if that is meant, allow it with --allow-private %s", host, addr, kindOf(addr), times, host)
}

func kindOf(addr netip.Addr) string {
	addr = addr.Unmap()
	switch {
	case addr.IsLoopback():
		return "loopback"
	case addr.IsPrivate():
		return "private"
	case addr.IsLinkLocalUnicast():
		return "link-local or metadata"
	default:
		return "special purpose"
	}
}
