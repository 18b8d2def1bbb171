package secrets

import (
	"crypto/x509"
	"sync"
)

// storing writes certificates to the state folder beside the renewal: a disk that is slow or stuck delays neither
// Envoy's next certificate nor the next request for one. Who writes is there as long as there is something to write.
type storing struct {
	workload *Workload

	mutex   sync.Mutex
	next    *stored // the newest that waits
	writing bool
	work    sync.WaitGroup
}

type stored struct {
	certificate *certificate
	roots       []*x509.Certificate
}

func newStoring(w *Workload) *storing { return &storing{workload: w} }

// offer has the certificate written as soon as the disk allows, in the place of an older one that still waits.
func (s *storing) offer(c *certificate, roots []*x509.Certificate) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.next = (&stored{certificate: c, roots: roots}); !s.writing {
		s.writing = true
		s.work.Go(s.run)
	}
}

// stop returns when the last one offered is written. Nothing is offered from then on.
func (s *storing) stop() { s.work.Wait() }

func (s *storing) run() {
	for n := s.take(); n != nil; n = s.take() {
		if err := s.workload.save(s.workload.options.Folder, n.certificate, n.roots); err != nil {
			s.workload.metrics.saveFailures.Inc()
			s.workload.options.Log.Error("the certificate could not be stored: an agent that restarts now needs the controller", "error", err)
		}
	}
}

// take gives what is to be written; nil when that is nothing, and who writes ends.
func (s *storing) take() *stored {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	n := s.next
	s.next, s.writing = nil, n != nil
	return n
}
