package dir

import (
	"slices"

	"github.com/sallyport/sallyport/serviceentry/admission"
)

// notes are the findings that hold now, each under the thing they were found in, so that those of a thing can be
// replaced. A finding is new once: when it was not among those of the same thing before.
type notes struct {
	held  map[string][]admission.Finding
	newer []admission.Finding
}

func newNotes() *notes { return &notes{held: map[string][]admission.Finding{}} }

// set replaces the findings of a thing.
func (n *notes) set(thing string, findings []admission.Finding) {
	for _, f := range findings {
		if !slices.ContainsFunc(n.held[thing], func(old admission.Finding) bool { return alike(f, old) }) {
			n.newer = append(n.newer, f)
		}
	}
	if len(findings) == 0 {
		delete(n.held, thing)
		return
	}
	n.held[thing] = findings
}

// alike compares findings without their line, which moves with any edit above it.
func alike(a, b admission.Finding) bool {
	a.Origin, b.Origin = "", ""
	return a == b
}

// fresh returns the findings that are new since it was last called, in order.
func (n *notes) fresh() []admission.Finding {
	f := n.newer
	n.newer = nil
	admission.Sort(f)
	return f
}

// findings returns all, in order.
func (s *store) findings() []admission.Finding {
	var all []admission.Finding
	for _, f := range s.notes.held {
		all = append(all, f...)
	}
	admission.Sort(all)
	return all
}
