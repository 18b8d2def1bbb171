package ingest

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// refusals are the records that were kept out. A few of them are logged, with the number of those that were not: whoever has a certificate can hand in as many as he likes.
type refusals struct {
	all    atomic.Uint64
	unsaid atomic.Uint64
	paced  rate.Sometimes
}

func newRefusals() *refusals {
	return &refusals{paced: rate.Sometimes{First: 20, Interval: time.Second}}
}

// refuse counts a record that was kept out.
func (s *Server) refuse(r *record.Record, err error) {
	s.refusals.all.Add(1)
	said := false
	s.refusals.paced.Do(func() {
		said = true
		s.log.Warn("audit record refused", "proxy", begins(r.Proxy), "principal", begins(r.Workload.Principal), "epoch", r.Epoch, "seq", r.Seq,
			"err", begins(err.Error()), "notLogged", s.refusals.unsaid.Swap(0))
	})
	if !said {
		s.refusals.unsaid.Add(1)
	}
}

// begins is the beginning of a text of the sender's, or of one that quotes it.
func begins(text string) string { return fmt.Sprintf("%.300s", text) }
