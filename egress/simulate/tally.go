package simulate

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// changeKey is what one Change is about.
type changeKey struct {
	Workload
	host, protocol string
	port           uint32
	before, after  Side
}

// tally adds up what became of questions.
type tally struct {
	report  Report
	denied  map[changeKey]*Change
	allowed map[changeKey]*Change
	would   map[changeKey]*Change
	why     map[string]*Why
}

func newTally() *tally {
	return &tally{denied: map[changeKey]*Change{}, allowed: map[changeKey]*Change{}, would: map[changeKey]*Change{}, why: map[string]*Why{}}
}

// add takes the inputs of one question.
func (t *tally) add(s *Sides, list []inputs.Input) {
	if list[0].Class == record.Gap {
		for i := range list {
			t.report.Gaps += list[i].Lost
		}
		return
	}
	t.report.Distinct++
	for i := range list {
		t.report.Records += list[i].Count
	}
	a, why := read(&list[0].Question)
	if why == "" && !a.labelled(s.Base, s.Candidate) {
		why = whyLabels
	}
	var found answer
	if why == "" {
		if found = s.decide(&a); found.unknown != "" {
			why = "it depends on " + found.unknown + ", which the log does not hold"
		}
	}
	if why != "" {
		t.report.NotReproducible++
		t.because(&a, why, list, 1)
		return
	}
	t.compare(&a, &found, t.reproducible(s, &a, list))
}

// reproducible gives the inputs that are as the configuration as it is would have them.
func (t *tally) reproducible(s *Sides, a *asked, list []inputs.Input) (out []inputs.Input) {
	whys := map[string][]inputs.Input{}
	for i := range list {
		if why := s.unreproducible(a, &list[i]); why != "" {
			whys[why] = append(whys[why], list[i])
		} else {
			out = append(out, list[i])
		}
	}
	one := 0
	if len(out) == 0 {
		t.report.NotReproducible++
		one = 1
	}
	for why, of := range whys {
		t.because(a, why, of, one)
	}
	return out
}

// because counts what is not reproducible.
func (t *tally) because(a *asked, why string, list []inputs.Input, questions int) {
	w := t.why[why]
	if w == nil && len(t.why) >= maxWhys {
		why = whyOther
		w = t.why[why]
	}
	if w == nil {
		w = &Why{Why: why}
		t.why[why] = w
	}
	w.Inputs += questions
	for i := range list {
		w.Records += list[i].Count
	}
	w.mention(questions > 0, describe(a))
}

// mention adds examples. Those of inputs without an answer take the place of others.
func (w *Why) mention(own bool, examples ...string) {
	switch {
	case w.own && !own:
		return
	case own && !w.own:
		w.own, w.Examples = true, nil
	}
	w.Examples = append(w.Examples, examples...)
	slices.Sort(w.Examples)
	w.Examples = slices.Compact(w.Examples)
	w.Examples = w.Examples[:min(len(w.Examples), maxExamples)]
}

// compare notes what changes for the records of a question.
func (t *tally) compare(a *asked, found *answer, list []inputs.Input) {
	before, after := &found.before, &found.after
	switch {
	case len(list) == 0:
	case before.Allowed && !after.Allowed:
		t.report.Inputs.NewlyDenied++
		t.note(t.denied, a, sideOf(*before, false), sideOf(*after, false), list)
	case !before.Allowed && after.Allowed:
		t.report.Inputs.NewlyAllowed++
		t.note(t.allowed, a, sideOf(*before, false), sideOf(*after, false), list)
	case after.Allowed && after.WouldDeny != nil && before.WouldDeny == nil:
		t.report.Inputs.WouldDeny++
		t.note(t.would, a, sideOf(*before, false), sideOf(*after, true), list)
	}
}

// note adds a question's records to a change.
func (t *tally) note(to map[changeKey]*Change, a *asked, before, after Side, list []inputs.Input) {
	key := changeKey{Workload{a.Namespace, a.ServiceAccount, a.Workload}, a.Host, a.Protocol, a.Port, before, after}
	c := to[key]
	if c == nil {
		if len(to) >= maxChanges {
			t.report.NotListed++
			return
		}
		c = &Change{Workload: key.Workload, Host: a.Host, Port: a.Port, Protocol: a.Protocol, Before: before, After: after, First: list[0].First}
		to[key] = c
	}
	c.add(a, list)
}

// add adds a question's records.
func (c *Change) add(a *asked, list []inputs.Input) {
	c.Inputs++
	x := Example{Method: a.Method, Path: a.URLPath, Labels: a.Labels, Dialled: a.Dialled}
	for i := range list {
		x.Records += list[i].Count
		if list[i].First.Before(c.First) {
			c.First = list[i].First
		}
		if list[i].Last.After(c.Last) {
			c.Last = list[i].Last
		}
	}
	c.Records += x.Records
	c.Examples = mergeExample(c.Examples, x)
}

// merge adds another tally.
func (t *tally) merge(o *tally) {
	r, from := &t.report, &o.report
	r.Records, r.Gaps, r.NotListed = r.Records+from.Records, r.Gaps+from.Gaps, r.NotListed+from.NotListed
	r.Distinct, r.NotReproducible = r.Distinct+from.Distinct, r.NotReproducible+from.NotReproducible
	r.Inputs.NewlyDenied += from.Inputs.NewlyDenied
	r.Inputs.NewlyAllowed += from.Inputs.NewlyAllowed
	r.Inputs.WouldDeny += from.Inputs.WouldDeny
	for _, lists := range [...][2]map[changeKey]*Change{{t.denied, o.denied}, {t.allowed, o.allowed}, {t.would, o.would}} {
		for key, c := range lists[1] {
			lists[0][key] = lists[0][key].plus(c)
		}
	}
	for why, w := range o.why {
		if has := t.why[why]; has != nil {
			w.Inputs, w.Records = w.Inputs+has.Inputs, w.Records+has.Records
			w.mention(has.own, has.Examples...)
		}
		t.why[why] = w
	}
}

// plus adds what is the same change; c may be nil.
func (c *Change) plus(o *Change) *Change {
	if c == nil {
		return o
	}
	c.Inputs, c.Records = c.Inputs+o.Inputs, c.Records+o.Records
	if o.First.Before(c.First) {
		c.First = o.First
	}
	if o.Last.After(c.Last) {
		c.Last = o.Last
	}
	for _, x := range o.Examples {
		c.Examples = mergeExample(c.Examples, x)
	}
	return c
}

// finish puts the lists in order: what has the most records comes first.
func (t *tally) finish() *Report {
	r := &t.report
	for _, list := range [...]struct {
		from map[changeKey]*Change
		to   *[]Change
	}{{t.denied, &r.NewlyDenied}, {t.allowed, &r.NewlyAllowed}, {t.would, &r.WouldDeny}} {
		*list.to = []Change{}
		for _, c := range list.from {
			*list.to = append(*list.to, *c)
		}
		slices.SortFunc(*list.to, Change.compare)
		if len(*list.to) > maxChanges {
			for _, c := range (*list.to)[maxChanges:] {
				r.NotListed += c.Inputs
			}
			*list.to = (*list.to)[:maxChanges]
		}
	}
	r.Why = []Why{}
	for _, w := range t.why {
		r.Why = append(r.Why, *w)
	}
	slices.SortFunc(r.Why, func(x, y Why) int { return cmp.Or(cmp.Compare(y.Records, x.Records), strings.Compare(x.Why, y.Why)) })
	return r
}

func (c Change) compare(o Change) int {
	return cmp.Or(cmp.Compare(o.Records, c.Records), strings.Compare(c.Workload.String(), o.Workload.String()), strings.Compare(c.Host, o.Host), cmp.Compare(c.Port, o.Port),
		strings.Compare(c.Protocol, o.Protocol), strings.Compare(c.Workload.ServiceAccount, o.Workload.ServiceAccount), c.After.compare(o.After), c.Before.compare(o.Before))
}

func (s Side) compare(o Side) int {
	a, b := s.DecidedBy, o.DecidedBy
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Rule, b.Rule), strings.Compare(s.Path, o.Path),
		strings.Compare(s.Reason, o.Reason))
}
