package query

import (
	"slices"

	"github.com/sallyport/sallyport/egress/audit/store"
)

// reads are the columns of the log that the filter asks about, beside the time; some are there more than once.
func (f Filter) reads() (out []string) {
	if f.Verdict != "" {
		out = append(out, "verdict")
	}
	if f.Host != "" {
		out = append(out, "host")
	}
	if f.From != (Workload{}) {
		out = append(out, "namespace", "workload", "service_account")
	}
	if f.WouldDeny || f.Rule != (Rule{}) {
		out = append(out, ruleColumns...)
	}
	for _, t := range f.Terms {
		out = append(out, byName[t.Key].columns...)
	}
	if len(f.Within) > 0 {
		out = append(out, "namespace", "reporter", "destination_namespace")
	}
	return out
}

// Few is store.Few for the records that fit, and for which one more condition on some columns holds; its parameters are those of both.
func (f Filter) Few(columns []string, condition string, values ...any) (relation string, args []any) {
	fits, args := f.Condition()
	args = append(slices.Clip(values), args...)
	return store.Few(append(f.reads(), columns...), condition+" AND "+fits), append(slices.Clip(args), args...)
}

// Relation is store.Relation with some columns, and those that the filter asks about, so that Condition can be asked of it.
func (f Filter) Relation(columns ...string) string {
	read := append(append(f.reads(), "time"), columns...)
	slices.Sort(read)
	return store.Relation(slices.Compact(read)...)
}
