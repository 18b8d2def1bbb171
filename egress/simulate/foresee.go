package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// Foresee compares the sides for inputs, those of one question one after the other, as long as ctx lasts: its error then is why there is
// no report.
func Foresee(ctx context.Context, s *Sides, list []inputs.Input) (*Report, error) {
	run := New(s)
	for i := range list {
		if ctx.Err() != nil {
			break
		}
		_ = run.Add(&list[i]) // it fails never
	}
	found := run.Finish()
	return found, ctx.Err()
}

// Sentences say in a line each what would newly be denied, and allowed: how much of the records, of how many workloads, when, such as "in the
// last hour", and as many examples as there is room for in so many bytes. It is about connections and requests, not about names.
func (r *Report) Sentences(when string, room int) (out []string) {
	for _, list := range [...]struct {
		does    string
		changes []Change
	}{{"deny", r.NewlyDenied}, {"allow", r.NewlyAllowed}} {
		changes := slices.DeleteFunc(slices.Clone(list.changes), func(c Change) bool { return c.Protocol == string(record.DNS) })
		if len(changes) > 0 {
			out = append(out, sentence(list.does, when, changes, room))
		}
	}
	return out
}

func sentence(does, when string, changes []Change, room int) string {
	records, workloads := uint64(0), map[Workload]bool{}
	for i := range changes {
		records += changes[i].Records
		workloads[changes[i].Workload] = true
	}
	text := fmt.Sprintf("would newly %s %s of %s %s", does, count(records, "connection or request", "connections or requests"), count(uint64(len(workloads)), "workload", "workloads"), when)
	var examples []string
	for i := range changes {
		c := &changes[i]
		x := fmt.Sprintf("%s to %s (%d)", c.Workload, target(c.Host, c.Port), c.Records)
		if room -= len(x) + len(", "); room < len(text) {
			break
		}
		examples = append(examples, x)
	}
	switch {
	case len(examples) == 0:
		return text
	case len(examples) < len(changes):
		examples = append(examples, "…")
	}
	return text + ": " + strings.Join(examples, ", ")
}

func count(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
