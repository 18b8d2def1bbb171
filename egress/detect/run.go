package detect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/audit/query"
)

// Log answers one SELECT. A query.Source is one.
type Log interface {
	SQL(ctx context.Context, statement string, sink query.RowSink) error
}

// DB is the log of a database.
type DB struct{ *sql.DB }

// SQL implements Log.
func (d DB) SQL(ctx context.Context, statement string, sink query.RowSink) error {
	return query.SQL(ctx, d.DB, statement, sink)
}

// Window is the time that is looked at: from Since to before Until. What was usual is read from Past on.
type Window struct {
	Past  time.Time `json:"past"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// Usual is how long before a window its past begins.
const Usual = 14 * 24 * time.Hour

// Options of a run. Zero fields take the defaults.
type Options struct {
	Inputs   Inputs
	Settings Settings
	Limit    int           // findings of one rule in one namespace; default 200
	Within   time.Duration // a rule may take so long; default a minute
	// Rest waits after a rule that took so long; nil: not at all.
	Rest func(ctx context.Context, took time.Duration)
}

// MaxFindings is how many findings of one rule there can be, of all namespaces.
const MaxFindings = 5000

// Report is what a run gives.
type Report struct {
	Window
	Findings []Finding `json:"findings"`
	Skipped  []Note    `json:"skipped"` // rules that need what was not given
	Failed   []Note    `json:"failed"`  // rules that broke
	More     []string  `json:"more"`    // rules that found more than that
}

// Note says of a rule what became of it.
type Note struct {
	Rule string `json:"rule"`
	File string `json:"file"`
	Why  string `json:"why"`
}

// Run runs the rules one after the other. A rule that breaks stops no other; only the end of ctx is an error.
func Run(ctx context.Context, log Log, rules []*Rule, window Window, o Options) (*Report, error) {
	if o.Limit <= 0 {
		o.Limit = 200
	}
	if o.Within <= 0 {
		o.Within = time.Minute
	}
	report := &Report{Window: window, Findings: []Finding{}, Skipped: []Note{}, Failed: []Note{}, More: []string{}}
	for _, rule := range rules {
		if why := o.Inputs.missing(rule); why != "" {
			report.Skipped = append(report.Skipped, Note{rule.ID, rule.File, why})
			continue
		}
		began := time.Now()
		found, err := runRule(ctx, log, rule, window, o)
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		if err != nil {
			report.Failed = append(report.Failed, Note{rule.ID, rule.File, visible.Lines(err.Error())})
		}
		kept := limited(found, o.Limit)
		if len(kept) < len(found) || len(found) == MaxFindings {
			report.More = append(report.More, rule.ID)
		}
		report.Findings = append(report.Findings, kept...)
		if o.Rest != nil {
			o.Rest(ctx, time.Since(began))
		}
	}
	slices.SortStableFunc(report.Findings, order)
	return report, nil
}

// limited keeps so many findings of each namespace.
func limited(found []Finding, most int) []Finding {
	of := map[string]int{}
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool {
		of[f.Namespace]++
		return of[f.Namespace] > most
	})
}

// runRule runs one rule, in the time that it has.
func runRule(ctx context.Context, log Log, rule *Rule, window Window, o Options) (found []Finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Within)
	defer cancel()
	in := o.Inputs
	if slices.Contains(rule.Needs, InputFeed) {
		if in.hits, err = in.Feed.match(ctx, log, window); err != nil {
			return nil, ended(ctx, err, o.Within)
		}
	}
	if slices.Contains(rule.Needs, InputProxies) {
		if in.unheard, err = unheard(ctx, log, window, in.Proxies); err != nil {
			return nil, ended(ctx, err, o.Within)
		}
	}
	statement, err := rule.statement(window, in, o.Settings[rule.ID], o.Limit+1)
	if err != nil {
		return nil, err
	}
	err = log.SQL(ctx, statement, &finder{rule: rule, take: func(f Finding) { found = append(found, f) }})
	if err != nil {
		return nil, ended(ctx, err, o.Within)
	}
	return found, nil
}

// ended says in words that the time was over, and leaves out what only the statement's wrapping has to do with.
func ended(ctx context.Context, err error, within time.Duration) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("it took longer than %v: look at less time (--since), or give it more (--within)", within)
	}
	var wrong query.StatementError
	if errors.As(err, &wrong) {
		if text := wrong.Error(); strings.Contains(text, "QUALIFY row_number()") && strings.Contains(text, "Referenced column") { // what is put behind the rule asks for its columns
			return fmt.Errorf("its SELECT must have the columns %s", strings.Join(needed, ", "))
		}
		return wrong.Err
	}
	return err
}
