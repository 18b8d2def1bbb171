package feed

import (
	"slices"

	"github.com/sallyport/sallyport/config/admission"
)

// Notes are the findings that hold now, each under the thing they were found in (a file, an object), so that those of
// a thing can be replaced. A finding is new once: when it was not among those of the same thing before. Things are
// named by any comparable value. Notes are for one goroutine.
type Notes[Thing comparable] struct {
	held  map[Thing][]admission.Finding
	newer []admission.Finding
}

// NewNotes makes empty notes.
func NewNotes[Thing comparable]() *Notes[Thing] {
	return &Notes[Thing]{held: map[Thing][]admission.Finding{}}
}

// Set replaces the findings of a thing.
func (n *Notes[Thing]) Set(thing Thing, findings []admission.Finding) {
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

// Of returns the findings of a thing. The slice must not be changed.
func (n *Notes[Thing]) Of(thing Thing) []admission.Finding { return n.held[thing] }

// Fresh returns the findings that are new since it was last called, in order.
func (n *Notes[Thing]) Fresh() []admission.Finding {
	f := n.newer
	n.newer = nil
	admission.Sort(f)
	return f
}

// All returns every finding, in order.
func (n *Notes[Thing]) All() []admission.Finding {
	var all []admission.Finding
	for _, f := range n.held {
		all = append(all, f...)
	}
	admission.Sort(all)
	return all
}
