package console

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
)

// asked is what a request chooses.
type asked struct {
	Text       string // as it was written
	Expression query.Expression
	Filter     query.Filter // its Since and Until are always there
	Path       string       // of the page
	values     url.Values
}

// ask reads a request's address.
func ask(u *url.URL, now time.Time) (a asked, err error) {
	a = asked{Path: u.Path}
	if a.values, err = url.ParseQuery(u.RawQuery); err != nil { // half of it would be another filter, which shows more
		return a, fmt.Errorf("the address of this page is no whole one: %w", err)
	}
	strange := keepKnown(u.Path, a.values)
	a.Text = a.values.Get("q")
	if a.Expression, err = query.ParseExpression(a.Text); err != nil {
		return a, err
	}
	if a.Filter, err = a.Expression.Filter(now, usualSince); err != nil {
		return a, err
	}
	if a.Filter.Until.IsZero() {
		a.Filter.Until = now
		if !a.Filter.Since.Before(now) { // what is to come: clocks differ
			a.Filter.Until = a.Filter.Since.Add(time.Hour)
		}
	}
	return a, strange
}

// beside is the same of what more holds for, also where it is the opposite of what is asked.
func (a asked) beside(terms ...query.Term) asked {
	a.Expression.Terms, a.Filter.Terms = slices.Concat(a.Expression.Terms, terms), slices.Concat(a.Filter.Terms, terms)
	return a
}

// narrower gives the addresses of this page with a term more, and with its opposite; "" where the filter has no room for it.
func (a asked) narrower(t query.Term) (only, not string) {
	with := a.Expression.With(t)
	t.Not = true
	if without := a.Expression.With(t); without.HasRoom() {
		return a.here(with), a.here(without)
	}
	return "", ""
}

// is is a term that a key has a value, of which nothing stands for anything else: it is what others wrote.
func is(key, value string) query.Term { return like(key, query.Literally(value)) }

// like is a term that a key's value fits one of some globs.
func like(key string, globs ...string) query.Term { return query.Term{Key: key, Values: globs} }

// below is a term that a key has a name, or one below it.
func below(key, name string) query.Term {
	name = query.Literally(name)
	return like(key, name, "*."+name)
}

// link writes an address: of a page, with a filter and further parameters, name and value after one another. What is "" is left out.
func link(path string, e query.Expression, more ...string) string {
	v := url.Values{}
	if q := e.String(); q != "" {
		v.Set("q", q)
	}
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] != "" {
			v.Add(more[i], more[i+1])
		}
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// here is this page, with another filter: its other parameters stay, but not where in a list one is.
func (a asked) here(e query.Expression) string {
	v := url.Values{}
	for name, values := range a.values {
		if name != "q" && name != "page" {
			v[name] = values
		}
	}
	if q := e.String(); q != "" {
		v.Set("q", q)
	}
	if len(v) == 0 {
		return a.Path
	}
	return a.Path + "?" + v.Encode()
}
