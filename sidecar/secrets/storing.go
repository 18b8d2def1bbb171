package secrets

import "crypto/x509"

// storing writes certificates to the state folder beside the renewal: a disk that is slow or stuck delays neither
// Envoy's next certificate nor the next request for one. One goroutine offers, one writes.
type storing struct {
	workload *Workload
	next     chan stored // holds at most the newest
	done     chan struct{}
}

type stored struct {
	certificate *certificate
	roots       []*x509.Certificate
}

func newStoring(w *Workload) *storing {
	s := &storing{workload: w, next: make(chan stored, 1), done: make(chan struct{})}
	go s.run()
	return s
}

// offer has the certificate written as soon as the disk allows, in the place of an older one that still waits.
func (s *storing) offer(c *certificate, roots []*x509.Certificate) {
	select {
	case <-s.next:
	default:
	}
	s.next <- stored{certificate: c, roots: roots}
}

// stop returns when the last one offered is written.
func (s *storing) stop() {
	close(s.next)
	<-s.done
}

func (s *storing) run() {
	defer close(s.done)
	for n := range s.next {
		if err := s.workload.save(s.workload.options.Folder, n.certificate, n.roots); err != nil {
			s.workload.metrics.saveFailures.Inc()
			s.workload.options.Log.Error("the certificate could not be stored: an agent that restarts now needs the controller", "error", err)
		}
	}
}
