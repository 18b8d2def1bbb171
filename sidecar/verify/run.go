package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limit is how long a whole run takes at most.
const Limit = 30 * time.Second

// longest is for how many answers one way waits at most, one after the other: a name's addresses, by UDP and by TCP, a
// connection, and what comes on it.
const longest = 6

// Report is what a run found.
type Report struct {
	Results []Result `json:"results"`
}

// Count says how many results have a verdict.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, result := range r.Results {
		if result.Verdict == v {
			n++
		}
	}
	return n
}

// Run tries the ways at the same time, and reports in their order. progress is told of each way that is done.
func Run(ctx context.Context, e *Env, ways []Way, progress func(Way)) Report {
	ctx, done := context.WithTimeout(ctx, Limit)
	defer done()
	results := make([][]Result, len(ways))
	var all sync.WaitGroup
	var one sync.Mutex
	for i, w := range ways {
		all.Go(func() {
			results[i] = w.run(ctx, e)
			one.Lock()
			defer one.Unlock()
			progress(w)
		})
	}
	all.Wait()
	return Report{slices.Concat(results...)}
}

func (w Way) run(ctx context.Context, e *Env) []Result {
	if w.Direct && e.Proxy != nil {
		return []Result{{Way: w.Name, Tried: w.About, Verdict: Skipped, Seen: "no forward proxy carries this; whether it leaves past the proxy is for the host's firewall", Needs: "--local"}}
	}
	results := w.try(ctx, e)
	if len(results) == 0 {
		results = []Result{{Tried: w.About, Verdict: Skipped, Seen: "it has no target", Needs: w.Needs}}
	}
	for i := range results {
		results[i].Way = w.Name
	}
	return results
}

// Choose keeps the ways that are named in only (all, if that is empty) and not in skip. It fails for names that no way has.
func Choose(only, skip []string) ([]Way, error) {
	for _, name := range slices.Concat(only, skip) {
		if !slices.ContainsFunc(All, func(w Way) bool { return w.Name == name }) {
			return nil, fmt.Errorf("%q is no way; there are %s", name, strings.Join(names(All), ", "))
		}
	}
	var ways []Way
	for _, w := range All {
		if (len(only) == 0 || slices.Contains(only, w.Name)) && !slices.Contains(skip, w.Name) {
			ways = append(ways, w)
		}
	}
	return ways, nil
}

func names(ways []Way) []string {
	var out []string
	for _, w := range ways {
		out = append(out, w.Name)
	}
	return out
}
