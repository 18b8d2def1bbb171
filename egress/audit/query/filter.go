package query

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// Filter chooses records. Zero fields choose everything.
type Filter struct {
	Since   time.Time      `json:"since,omitzero"` // included
	Until   time.Time      `json:"until,omitzero"` // not included
	Verdict record.Verdict `json:"verdict,omitempty"`
	Host    string         `json:"host,omitempty"` // glob, upper and lower case alike
	From    Workload       `json:"from,omitzero"`
	// Rule is of a policy that decided, allowed, or would deny; with WouldDeny of one that would deny.
	Rule      Rule `json:"rule,omitzero"`
	WouldDeny bool `json:"wouldDeny,omitempty"` // what would have been denied if the policies that are observed were enforced
	Limit     int  `json:"limit,omitempty"`     // the newest ones; 0: no limit
	// Terms have to hold, too.
	Terms []Term `json:"terms,omitempty"`
	// Within are the namespaces that may be looked into; empty: all. Theirs is what their workloads sent, and what came to them by the word of
	// their own proxies.
	Within []string `json:"within,omitempty"`
}

// Workload names senders: a namespace, and in it a pod or a service account. Both may be globs; empty fits all.
type Workload struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// ParseWorkload reads NS/WORKLOAD, or NS for all in it.
func ParseWorkload(text string) (Workload, error) {
	namespace, name, _ := strings.Cut(text, "/")
	if namespace == "" && name == "" && text != "" || strings.Contains(name, "/") {
		return Workload{}, fmt.Errorf("workload %q: write NAMESPACE/NAME, the name of a pod or service account", text)
	}
	return Workload{namespace, name}, nil
}

// ParseVerdict reads allowed or denied; empty is both.
func ParseVerdict(text string) (record.Verdict, error) {
	switch v := record.Verdict(strings.ToLower(text)); v {
	case "", record.Allowed, record.Denied:
		return v, nil
	}
	return "", fmt.Errorf("verdict %q: it is allowed or denied", text)
}

// timeLayouts are those of RFC 3339, with a space for its T, and without seconds or a zone: what is printed here can be given back. Without a zone it is UTC.
var timeLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime, time.DateOnly, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04", "2006-01-02T15:04Z07:00", "2006-01-02 15:04", "2006-01-02 15:04Z07:00"}

// ParseTime reads a time of RFC 3339, a date, or how long before now: a duration like 90s, 1h30m, 7d, 2w.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	d, err := ParseDuration(text)
	if errors.Is(err, errTooLong) {
		return time.Time{}, err
	}
	if err != nil || d < 0 {
		return time.Time{}, fmt.Errorf("time %q: write a duration before now (30m, 1h, 7d) or a time (%s)",
			text, "2006-01-02T15:04:05Z")
	}
	return now.Add(-d), nil
}

// ParsePast is ParseTime of since when something was seen, which is not to come: that nothing was would be no answer.
func ParsePast(text string, now time.Time) (time.Time, error) {
	at, err := ParseTime(text, now)
	if err == nil && !at.Before(now) {
		err = fmt.Errorf("%q is to come, and nothing was seen since then: write how long before now (30m, 1h, 7d), or a time that was", text)
	}
	return at, err
}

// ParseDuration is time.ParseDuration with days and weeks before the rest: 1w2d3h.
func ParseDuration(text string) (time.Duration, error) {
	var total time.Duration
	for _, unit := range []struct {
		letter string
		length time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		number, rest, found := strings.Cut(text, unit.letter)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("duration %q: %w", text, err)
		}
		if time.Duration(n) > (math.MaxInt64-total)/unit.length {
			return 0, fmt.Errorf("duration %q: %w", text, errTooLong)
		}
		total, text = total+time.Duration(n)*unit.length, rest
	}
	if text == "" && total > 0 {
		return total, nil
	}
	d, err := time.ParseDuration(text)
	if d > math.MaxInt64-total {
		return 0, fmt.Errorf("duration %q: %w", text, errTooLong)
	}
	return total + d, err
}

var errTooLong = errors.New("it is longer than 292 years")

// Match says whether a record fits; Limit is not looked at. It agrees with Condition.
func (f Filter) Match(r *record.Record) bool {
	switch {
	case !f.Since.IsZero() && r.Time.Before(f.Since), !f.Until.IsZero() && !r.Time.Before(f.Until):
		return false
	case f.Verdict != "" && r.Verdict != f.Verdict:
		return false
	case f.Host != "" && !globMatch(strings.ToLower(f.Host), strings.ToLower(r.Host)):
		return false
	case f.From.Namespace != "" && !globMatch(f.From.Namespace, r.Workload.Namespace):
		return false
	case f.From.Name != "" && !globMatch(f.From.Name, r.Workload.Name) && !globMatch(f.From.Name, r.Workload.ServiceAccount):
		return false
	case (f.WouldDeny || f.Rule != Rule{}) && !f.Rule.match(r, f.WouldDeny):
		return false
	}
	return f.within(r) && !slices.ContainsFunc(f.Terms, func(t Term) bool { return !t.match(r) })
}

func (f Filter) within(r *record.Record) bool {
	return len(f.Within) == 0 || slices.Contains(f.Within, r.Workload.Namespace) ||
		r.Reporter == record.ReporterDestination && slices.Contains(f.Within, r.DestinationWorkload.Namespace)
}

// Condition writes the filter as a condition on the table records, with its parameters. Limit is not in it.
func (f Filter) Condition() (string, []any) { return f.between(f.seen(f.fits())) }

// seen adds Within to a condition.
func (f Filter) seen(condition string, args []any) (string, []any) {
	if in, values := f.namespaces(); in != "" {
		condition += " AND (namespace " + in + " OR reporter = '" + record.ReporterDestination + "' AND destination_namespace " + in + ")"
		args = append(append(args, values...), values...)
	}
	return condition, args
}

// OfSenders is Condition for store.Sightings, which know who sent, and not where to.
func (f Filter) OfSenders() (string, []any) {
	condition, args := f.fits()
	if in, values := f.namespaces(); in != "" {
		condition, args = condition+" AND namespace "+in, append(args, values...)
	}
	return f.between(condition, args)
}

// namespaces writes Within as what a column has to be; "" where it may be anything.
func (f Filter) namespaces() (in string, values []any) {
	if len(f.Within) == 0 {
		return "", nil
	}
	for _, namespace := range f.Within {
		values = append(values, namespace)
	}
	return "IN (?" + strings.Repeat(", ?", len(values)-1) + ")", values
}

// between adds the time to a condition.
func (f Filter) between(condition string, args []any) (string, []any) {
	for _, bound := range []struct {
		condition string
		at        time.Time
	}{{" AND time >= ?", f.Since}, {" AND time < ?", f.Until}} {
		if !bound.at.IsZero() {
			condition += bound.condition
			args = append(args, bound.at.UTC())
		}
	}
	return condition, args
}

// fits is what it asks for beside the time, and Within.
func (f Filter) fits() (string, []any) {
	conditions, args := []string{"true"}, []any(nil)
	add := func(condition string, values ...any) {
		conditions = append(conditions, condition)
		args = append(args, values...)
	}
	if f.Verdict != "" {
		add("verdict = ?", string(f.Verdict))
	}
	if f.Host != "" {
		add(`lower(host) LIKE ? ESCAPE '\'`, globLike(strings.ToLower(f.Host)))
	}
	if f.From.Namespace != "" {
		add(`namespace LIKE ? ESCAPE '\'`, globLike(f.From.Namespace))
	}
	if f.From.Name != "" {
		name := globLike(f.From.Name)
		add(`(workload LIKE ? ESCAPE '\' OR service_account LIKE ? ESCAPE '\')`, name, name)
	}
	if (f.WouldDeny || f.Rule != Rule{}) {
		condition, values := f.Rule.where(f.WouldDeny)
		add(condition, values...)
	}
	for _, t := range f.Terms {
		condition, values := t.where()
		add(condition, values...)
	}
	return strings.Join(conditions, " AND "), args
}
