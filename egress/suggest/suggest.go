package suggest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/egress/seen"
)

// Suggest makes objects of what was seen.
func Suggest(c Config, log *seen.Log, o Options) *Result {
	sorted := *log
	sorted.Flows = slices.SortedFunc(slices.Values(log.Flows), (*seen.Flow).Compare)
	r := &Result{Log: &sorted}
	w := newWorld(c, r, o.Now).named()
	r.tellLog(o)
	uses := w.uses(o)
	entries := w.register(uses, o)
	if o.Policies {
		entries = append(entries, w.permit(uses, entries, o)...)
	}
	r.Changes = entries
	if o.Unused != nil {
		r.Changes = append(r.Changes, w.unused(entries, uses, o)...)
	}
	r.sort()
	return r
}

// tellLog says what the log does not tell.
func (r *Result) tellLog(o Options) {
	l := r.Log
	if reaches := reach(l.Oldest, l.Since, o.Now); !l.Since.IsZero() && o.Now.Sub(l.Since)-reaches > time.Hour {
		r.note("the log reaches back to %s only (%s): what happens more seldom is not in it", moment(l.Oldest), inDays(reaches))
	}
	if l.Gaps > 0 {
		r.note("%d records are missing in the log: what they would have told is not here", l.Gaps)
	}
	if l.Nameless > 0 {
		r.note("%d records are of nobody who is known, and are left out", l.Nameless)
	}
	if l.Claimed > 0 {
		r.note("%d records are what gateways claim that are not believed about others, and are left out", l.Claimed)
	}
	if len(l.Cut) > 0 {
		of := slices.Sorted(maps.Keys(l.Cut))
		more := ""
		if len(of) > mostNamed {
			more = fmt.Sprintf(" and %d more", len(of)-mostNamed)
		}
		r.note("more than %d flows are in the log, and of %s%s those with the fewest records are left out, so new policies there only observe: narrow it with --from or --since", seen.MaxFlows, strings.Join(of[:min(len(of), mostNamed)], ", "), more)
	}
}

// mostNamed is how many namespaces a note names.
const mostNamed = 5

// reach is how much of the window the log has.
func reach(oldest, since, now time.Time) time.Duration {
	if oldest.IsZero() {
		return 0
	}
	if oldest.Before(since) {
		oldest = since
	}
	return now.Sub(oldest)
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "nothing"
	}
	return t.UTC().Format("2006-01-02T15:04Z")
}

func inDays(d time.Duration) string {
	if d < 48*time.Hour {
		return fmt.Sprintf("%d hours", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// register makes the entries that are missing. What one would close that is open it does without.
func (w *world) register(uses []*use, o Options) []Change {
	needs := w.needs(uses)
	w.widen(needs, o.Siblings)
	w.limit(needs, o.Limit)
	for {
		entries := w.entries(needs)
		s := w.with(entries, w.probe())
		if !w.dropHarmful(needs, uses, func(u *use) string {
			for _, to := range u.allowed {
				if v := w.decide(s, u.who, to); !v.Allowed {
					return v.Reason
				}
			}
			return ""
		}) {
			return entries
		}
	}
}

// dropHarmful takes needs away by which a use that was allowed would be denied; it says whether there were any.
func (w *world) dropHarmful(needs map[needID]*need, uses []*use, denied func(*use) string) (dropped bool) {
	for _, u := range uses {
		if !u.keeps() || len(needs) == 0 {
			continue
		}
		why := denied(u)
		if why == "" {
			continue
		}
		var at, port []needID
		for id, n := range needs {
			if !n.in[u.Namespace] {
				continue
			}
			if n.covers(u.Host) {
				at = append(at, id)
			}
			if n.ports[u.Port] != "" {
				port = append(port, id)
			}
		}
		if len(at) == 0 {
			at = port // registered, a port may be read in another way, whoever is asked for
		}
		for _, id := range at {
			w.drop(needs, id, fmt.Sprintf("registered, %s would deny %s:%d, which was seen allowed: %s", workloadOf(u.Flow), shown(u.Host), u.Port, why))
			dropped = true
		}
	}
	return dropped
}

// permit makes the policies. One that would deny what was seen allowed only observes.
func (w *world) permit(uses []*use, entries []Change, o Options) []Change {
	policies := w.policies(uses, w.with(entries, w.probe()), o)
	for {
		s := w.with(slices.Concat(entries, policies))
		again := false
		for _, u := range uses {
			if !u.keeps() {
				continue
			}
			for _, to := range u.allowed {
				v := w.decide(s, u.who, to)
				if v.Allowed || v.Ruling == nil {
					continue
				}
				again = w.observe(policies, v.Ruling.Policy.Key, u) || again
			}
		}
		if !again {
			return slices.DeleteFunc(policies, func(c Change) bool { return c.After == c.Before })
		}
	}
}

// observe makes a suggested policy deny nothing, since it would deny a use.
func (w *world) observe(policies []Change, key config.Key, u *use) bool {
	i := slices.IndexFunc(policies, func(c Change) bool { return c.Key() == key })
	if i < 0 {
		return false
	}
	c := &policies[i]
	if c.Before != nil {
		if c.After == c.Before {
			return false
		}
		c.After = c.Before
		w.result.note("%s is left as it is: with more rules it would deny %s:%d, which was seen allowed", key, shown(u.Host), u.Port)
		return true
	}
	spec := proto.CloneOf(c.After.Spec.(*v1alpha1.EgressPolicy))
	if spec.Mode == v1alpha1.Mode_Observe {
		return false
	}
	spec.Mode = v1alpha1.Mode_Observe
	c.After = w.object(key, c.After, spec)
	c.Notes = append(c.Notes, fmt.Sprintf("it only observes: enforced, it would deny %s:%d, which was seen allowed and for which nothing is suggested. Say what is to become of that first", shown(u.Host), u.Port))
	return true
}
