package secrets

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
)

// renewal is the state of the endless task of having a valid certificate. One goroutine uses it.
type renewal struct {
	workload *Workload
	conn     grpc.ClientConnInterface
	storing  *storing
	failures int                 // in a row
	due      time.Time           // of the next attempt, by the calendar
	given    []*x509.Certificate // roots of the --ca-root file at the last look
}

func newRenewal(w *Workload, conn grpc.ClientConnInterface, s *storing) *renewal {
	m := w.board.read()
	return &renewal{workload: w, conn: conn, storing: s, given: m.given}
}

// first is when to ask after a start: at once without a certificate that holds, else when it is due.
func (r *renewal) first(now time.Time) time.Duration {
	m := r.workload.board.read()
	if m.certificate == nil || m.disowned(now) {
		return r.after(0)
	}
	due := m.certificate.obtained.Add(renewAfter(m.certificate.lifetime(), r.workload.options.Random()))
	return r.after(max(due.Sub(now), 0))
}

// after notes when the next attempt is due.
func (r *renewal) after(pause time.Duration) time.Duration {
	r.due = time.Now().Add(pause).Round(0) // without the monotonic clock
	return pause
}

// overdue reports whether to ask before the timer says so: the machine slept, or the roots changed and no longer
// vouch for the certificate. (They need not vouch for it ever: the controller's TLS may have a CA of its own.)
func (r *renewal) overdue(now time.Time) bool {
	m := r.workload.board.read()
	changed := !slices.EqualFunc(m.given, r.given, (*x509.Certificate).Equal)
	r.given = m.given
	return changed && m.disowned(now) || now.Round(0).After(r.due.Add(time.Second))
}

// attempt asks once and returns how long to wait before the next time.
func (r *renewal) attempt(ctx context.Context) time.Duration {
	w := r.workload
	c, roots, err := request(ctx, r.conn, w.options.TTL, w.options.As)
	if err == nil {
		err = c.checkAccount(w.options.Namespace, w.options.ServiceAccount)
	}
	if err == nil && w.options.As != "" && c.spiffeID() != w.options.As {
		err = fmt.Errorf("the certificate is of %q, asked for was %q", c.spiffeID(), w.options.As)
	}
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		return r.failed(err)
	}
	r.failures, roots = 0, w.known(roots)
	w.metrics.renewals.WithLabelValues("success").Inc()
	w.publish(func(m material) material { m.certificate, m.issued = c, roots; return m })
	r.storing.offer(c, roots)
	w.options.Log.Info("certificate obtained", "identity", c.spiffeID(), "expires", c.leaf.NotAfter)
	return r.after(renewAfter(c.lifetime(), w.options.Random()))
}

func (r *renewal) failed(err error) time.Duration {
	w := r.workload
	r.failures++
	w.metrics.renewals.WithLabelValues("failure").Inc()
	m := w.board.read()
	now := time.Now()
	lifetime := time.Duration(0)
	held := "none"
	if c := m.certificate; c != nil {
		held = "expired"
		if !c.expired(now) {
			lifetime, held = c.lifetime(), "valid until "+c.leaf.NotAfter.UTC().Format(time.RFC3339)
		}
	}
	pause := retryAfter(r.failures, lifetime, w.options.Random())
	w.options.Log.Warn("no new certificate", "error", err, "held", held, "failures", r.failures, "retry", pause.Round(time.Millisecond).String())
	return r.after(pause)
}
