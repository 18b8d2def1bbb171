package mesh

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config/decode/strict"
)

// block reads the fields of our own block, for which there is no API type, and collects what is wrong with them.
type block struct{ problems []strict.Problem }

func problem(field, value, message, fix string) strict.Problem {
	return strict.Problem{Field: field, Value: strict.Show(value), Message: message, Fix: fix}
}

func (b *block) add(field string, value any, message, fix string) {
	b.problems = append(b.problems, strict.Problem{Field: field, Value: strict.Show(value), Message: message, Fix: fix})
}

// fields returns the mapping v, after a complaint about each field that is not known.
func (b *block) fields(at string, v any, known ...string) map[string]any {
	if v == nil {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		b.add(at, v, "is not a mapping of fields", "write "+at+"."+known[0]+": VALUE")
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if slices.Contains(known, name) {
			continue
		}
		fix := "remove it; the fields here are " + strings.Join(known, ", ")
		if meant := strict.Closest(name, known); meant != "" {
			fix = fmt.Sprintf("did you mean %q?", meant)
		}
		b.problems = append(b.problems, strict.Problem{Field: strict.Join(at, name), Message: "unknown field", Fix: fix})
	}
	return m
}

func (b *block) text(at string, v any) string {
	s, ok := v.(string)
	if v != nil && !ok {
		b.add(at, v, "is not a string", "write text, in quotes if needed")
	}
	return s
}

// texts walks a list of strings with the path of each.
func (b *block) texts(at string, v any) iter.Seq2[string, string] {
	items, ok := v.([]any)
	if v != nil && !ok {
		b.add(at, v, "is not a list", `write a list, each item on its own line after "- "`)
	}
	return func(yield func(string, string) bool) {
		for i, item := range items {
			path := fmt.Sprintf("%s[%d]", at, i)
			if s := b.text(path, item); s != "" && !yield(path, s) {
				return
			}
		}
	}
}

// yes reads a setting that is true or false, which is what it is where nothing is said.
func (b *block) yes(at string, v any) bool {
	yes, ok := v.(bool)
	if !ok && v != nil {
		b.add(at, v, "is neither true nor false", "write one of them")
	}
	return yes
}

// whole reads how many of something there may be.
func (b *block) whole(at string, v any, what string) int {
	n := numeric(v)
	if !(n >= 0 && n <= math.MaxInt32 && n == math.Trunc(n)) { // NaN is none, either
		b.add(at, v, "is no number of "+what, "write a whole number, 0 for none")
		return 0
	}
	return int(n)
}

// numeric is the number that a value is, as YAML has them; 0 of one that is not written, and NaN of any other.
func numeric(v any) float64 {
	switch v := v.(type) {
	case nil:
		return 0
	case int64:
		return float64(v)
	case float64:
		return v
	default:
		return math.NaN()
	}
}
