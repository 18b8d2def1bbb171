package query

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Expression is a filter as people write it: "host:*.a.test -workload:shop/cart verdict:denied since:7d". All of its terms have to hold.
// The language is written down in docs/reference-filters.md.
type Expression struct {
	Terms        []Term
	Since, Until string // as ParseTime reads them; "" is not said
}

// Term is one condition: that one of the values fits, or none of them does.
type Term struct {
	Key      string   `json:"key"`
	Not      bool     `json:"not,omitempty"`
	Operator string   `json:"operator,omitempty"` // of numbers: > >= < <=, and one value; "" is equality
	Values   []string `json:"values"`
}

// Bounds of an expression.
const (
	maxExpression = 8192 // bytes
	maxTerms      = 64
	maxValues     = 256
)

// operators are tried in this order.
var operators = []string{">=", "<=", ">", "<"}

// ParseExpression reads an expression. "" chooses everything.
func ParseExpression(text string) (e Expression, err error) {
	if len(text) > maxExpression {
		return e, fmt.Errorf("the filter has %d bytes, at most %d are read", len(text), maxExpression)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return e, errors.New("the filter is no text: it is not UTF-8, or holds a NUL")
	}
	values := 0
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		var t Term
		var word string
		if t, word, rest, err = nextTerm(rest); err != nil {
			return Expression{}, err
		}
		if err := e.take(t); err != nil {
			return Expression{}, fmt.Errorf("filter %q: %w", word, err)
		}
		if values += len(t.Values); values > maxValues || len(e.Terms) > maxTerms {
			return Expression{}, fmt.Errorf("the filter has more than %d terms, or %d values", maxTerms, maxValues)
		}
	}
	return e, nil
}

// take adds a term.
func (e *Expression) take(t Term) error {
	bound := map[string]*string{"since": &e.Since, "until": &e.Until}[t.Key]
	if bound == nil {
		if err := t.check(); err != nil {
			return err
		}
		e.Terms = append(e.Terms, t)
		return nil
	}
	switch {
	case t.Not || t.Operator != "" || len(t.Values) != 1:
		return fmt.Errorf("%s: takes one time, without - before it: since:7d until:1h", t.Key)
	case *bound != "":
		return fmt.Errorf("%s: is there twice; leave one out", t.Key)
	}
	if _, err := ParseTime(t.Values[0], time.Time{}); err != nil {
		return err
	}
	*bound = t.Values[0]
	return nil
}

// nextTerm reads one term, and gives how it was written.
func nextTerm(text string) (t Term, word, rest string, err error) {
	rest = text
	if len(rest) > 1 && rest[0] == '-' {
		t.Not, rest = true, rest[1:]
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' })
	if end > 0 && rest[end] == ':' && !isAddress(firstWord(rest)) {
		t.Key, rest = strings.ToLower(rest[:end]), rest[end+1:]
	}
	for _, o := range operators {
		if t.Key != "" && strings.HasPrefix(rest, o) {
			t.Operator, rest = o, rest[len(o):]
			break
		}
	}
	for more := true; more; {
		var value string
		var quoted bool
		if value, rest, quoted, err = nextValue(rest); err != nil {
			return t, "", "", err
		}
		if value == "" && !quoted {
			return t, "", "", fmt.Errorf("filter %q: a value is missing; for what is empty write \"\"", text[:len(text)-len(rest)])
		}
		t.Values = append(t.Values, value)
		if more = strings.HasPrefix(rest, ","); more {
			rest = rest[1:]
		}
	}
	if t.Key == "" { // a word alone is a part of a host
		if err := mayBeOfHost(text[:len(text)-len(rest)]); err != nil {
			return t, "", "", err
		}
		t.Key = "host"
		for i, v := range t.Values {
			t.Values[i] = around(v)
		}
	}
	return t, text[:len(text)-len(rest)], rest, nil
}

// nextValue reads up to a space or a comma, or a text in quotes, in which \ takes the next character as it is: the value is a glob, so that it stays before those that are special there.
func nextValue(text string) (value, rest string, quoted bool, err error) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
		if end < 0 {
			end = len(text)
		}
		if at := strings.IndexByte(text[:end], '"'); at >= 0 {
			return "", "", false, fmt.Errorf("filter %q: write the whole value in quotes, as in reason:\"not registered\"", text[:end])
		}
		if strings.IndexAny(text[:end], otherQuotes) == 0 {
			return "", "", false, fmt.Errorf("filter %q: quotes are \", as in reason:\"not registered\"", text[:end])
		}
		return unquoted(text[:end]), text[end:], false, nil
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			if i++; strings.IndexByte(special, text[i]) >= 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(text[i])
		case c == '"':
			rest = text[i+1:]
			if r := strings.TrimLeftFunc(rest, unicode.IsSpace); len(r) == len(rest) && rest != "" && rest[0] != ',' {
				return "", "", true, fmt.Errorf("filter: behind %s a space is missing", text[:i+1])
			}
			return b.String(), rest, true, nil
		default:
			b.WriteByte(c)
		}
	}
	return "", "", true, errors.New("filter: a quote \" is not closed")
}

// String writes the expression so that ParseExpression reads it.
func (e Expression) String() string {
	var out []string
	for _, t := range e.Terms {
		out = append(out, t.String())
	}
	for _, bound := range []Term{{Key: "since", Values: []string{e.Since}}, {Key: "until", Values: []string{e.Until}}} {
		if bound.Values[0] != "" {
			out = append(out, bound.String())
		}
	}
	return strings.Join(out, " ")
}

// String writes the term.
func (t Term) String() string {
	var b strings.Builder
	if t.Not {
		b.WriteByte('-')
	}
	b.WriteString(t.Key + ":" + t.Operator)
	for i, v := range t.Values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quoteValue(v))
	}
	return b.String()
}

func quoteValue(v string) string {
	if v != "" && strings.IndexAny(v, otherQuotes) != 0 && !strings.ContainsFunc(v, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`",\<>`, r) }) {
		return v
	}
	return `"` + strings.ReplaceAll(unquoted(v), `"`, `\"`) + `"`
}

// With gives the expression with a term more. What says the same, or the opposite, about the same goes.
func (e Expression) With(t Term) Expression {
	other := t
	other.Not = !t.Not
	e.Terms = append(slices.DeleteFunc(slices.Clone(e.Terms), func(x Term) bool { return x.equal(t) || x.equal(other) }), t)
	return e
}

// HasRoom says whether other terms and times can still be written beside what there is.
func (e Expression) HasRoom() bool {
	return len(e.Terms) <= maxTerms-4 && len(e.String()) <= maxExpression*3/4
}

// Without gives the expression without one of its terms, by its place.
func (e Expression) Without(i int) Expression {
	e.Terms = slices.Delete(slices.Clone(e.Terms), i, i+1)
	return e
}

// Between gives the expression for another time.
func (e Expression) Between(since, until string) Expression {
	e.Since, e.Until = since, until
	return e
}

func (t Term) equal(o Term) bool {
	return t.Key == o.Key && t.Not == o.Not && t.Operator == o.Operator && slices.Equal(t.Values, o.Values)
}

// Filter gives the filter of it at a time; since is what is taken where the expression does not say since when.
func (e Expression) Filter(now time.Time, since string) (f Filter, err error) {
	if f.Since, err = ParseTime(cmp.Or(e.Since, since), now); err != nil {
		return f, fmt.Errorf("since: %w", err)
	}
	if f.Until, err = ParseTime(e.Until, now); err != nil {
		return f, fmt.Errorf("until: %w", err)
	}
	if !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return f, fmt.Errorf("since:%s is not before until:%s", cmp.Or(e.Since, since), e.Until)
	}
	f.Terms = e.Terms
	return f, nil
}
