package simulate

import (
	"runtime"
	"sync"

	"github.com/sallyport/sallyport/egress/audit/inputs"
)

// together is how many questions one worker takes at a time.
const together = 256

// Run compares the sides for the inputs that come by Add, those of one question one after the other. It uses as many processors as there are.
// Finish gives the report, and has to be called in any case.
type Run struct {
	sides   *Sides
	batch   [][]inputs.Input // by question; the last one may get more
	work    chan [][]inputs.Input
	many    bool // more than one batch
	workers sync.WaitGroup
	tallies []*tally
}

// New begins a comparison.
func New(s *Sides) *Run {
	r := &Run{sides: s, work: make(chan [][]inputs.Input, 4)}
	for range runtime.GOMAXPROCS(0) {
		t := newTally()
		r.tallies = append(r.tallies, t)
		r.workers.Go(func() {
			for batch := range r.work {
				for _, list := range batch {
					t.add(r.sides, list)
				}
			}
		})
	}
	return r
}

// Add takes the next input.
func (r *Run) Add(x *inputs.Input) error {
	if n := len(r.batch); n > 0 && r.batch[n-1][0].Question == x.Question {
		r.batch[n-1] = append(r.batch[n-1], *x)
		return nil
	}
	if len(r.batch) == together {
		if !r.many { // nobody has begun
			r.many, r.sides = true, r.sides.quick()
		}
		r.work <- r.batch
		r.batch = nil
	}
	r.batch = append(r.batch, []inputs.Input{*x})
	return nil
}

// Finish gives the report of all that was added.
func (r *Run) Finish() *Report {
	if len(r.batch) > 0 {
		r.work <- r.batch
	}
	close(r.work)
	r.workers.Wait()
	for _, t := range r.tallies[1:] {
		r.tallies[0].merge(t)
	}
	return r.tallies[0].finish()
}
