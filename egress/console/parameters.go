package console

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parameter is one that the address of a page may have beside the filter.
type parameter struct {
	check func(value string) error // nil: the page says what is wrong
	many  bool                     // it may be there several times
}

// parameters are those of each path; all take the filter. What is not among them would choose nothing, and the page show more than was asked for.
var parameters = map[string]map[string]parameter{
	"/log":      {"page": {check: isPage}, "group": {check: isGroup}, "col": {check: isColumn, many: true}},
	"/record":   {"proxy": {}, "epoch": {}, "seq": {}},
	"/host":     {"name": {}},
	"/workload": {"name": {}},
	"/flows":    {"by": {check: isWidth}},
	"/explain":  {"from": {}, "url": {}},
	"/policies": {"host": {}, "from": {}},
}

// keepKnown leaves in an address what its page takes, so that what the page links to is right, and says what else is there.
func keepKnown(path string, values url.Values) (err error) {
	takes := parameters[path]
	for _, name := range slices.Sorted(maps.Keys(values)) {
		p, known := takes[name]
		if !known && name != "q" {
			delete(values, name)
			err = errors.Join(err, errUnknownParameter(name, takes))
			continue
		}
		if n := len(values[name]); n > 1 && !p.many {
			values[name] = values[name][:1]
			err = errors.Join(err, fmt.Errorf("%s: it is there %d times; leave all but one out", name, n))
		}
		for _, v := range values[name] {
			if wrong := p.says(name, v); wrong != nil {
				delete(values, name)
				err = errors.Join(err, wrong)
				break
			}
		}
	}
	return err
}

// says what is wrong with a value. What is wrong with a filter its parser says.
func (p parameter) says(name, value string) error {
	switch {
	case name == "q":
		return nil
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return fmt.Errorf("%s: it is no text: it is not UTF-8, or holds a NUL", name)
	case p.check == nil:
		return nil
	}
	return p.check(value)
}

func errUnknownParameter(name string, takes map[string]parameter) error {
	return fmt.Errorf("%.100q is no parameter of this page; it takes %s. What records are chosen by is in q, such as q=since:7d host:*.example.com", name,
		strings.Join(append([]string{"q"}, slices.Sorted(maps.Keys(takes))...), ", "))
}

func isPage(value string) error {
	at, err := strconv.Atoi(value)
	switch {
	case value == "":
		return nil
	case err != nil || at < 0:
		return fmt.Errorf("page: %.100q is no number of a page, which is 0 for the first one", value)
	case at >= mostPages:
		return errTooFar
	}
	return nil
}

func isGroup(value string) error {
	if _, known := dimensionOf(value); !known && value != "" {
		return errUnknownGroup
	}
	return nil
}

func isColumn(value string) error {
	if value != "time" && !slices.ContainsFunc(columns, func(c column) bool { return c.Name == value }) { // the time is always shown
		return fmt.Errorf("col: the log has no column %.100q", value)
	}
	return nil
}

func isWidth(value string) error {
	if value != "bytes" && value != "records" && value != "" {
		return fmt.Errorf("by: lines are as wide as records, or bytes, not %.100q", value)
	}
	return nil
}
