package admission_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config/admission"
)

// TestCoversSegments tries all short patterns: one that covers another matches every path that this one does, and what a "**" at
// the end, or a "*", plainly covers is covered.
func TestCoversSegments(t *testing.T) {
	patterns, paths := sequences([]string{"a", "*", "**"}, 3), sequences([]string{"", "a", "b"}, 4)
	covered := 0
	for _, wide := range patterns {
		for _, narrow := range patterns {
			if !admission.CoversSegments(wide, narrow) {
				continue
			}
			covered++
			for _, path := range paths {
				if matchesSegments(narrow, path) && !matchesSegments(wide, path) {
					t.Fatalf("%v does not cover %v: %q", wide, narrow, path)
				}
			}
		}
	}
	if covered < 2*len(patterns) {
		t.Errorf("only %d pairs of %d patterns are covered", covered, len(patterns))
	}
}

// sequences are all of n items at most.
func sequences(items []string, n int) [][]string {
	all := [][]string{{}}
	for last := all; n > 0; n-- {
		var longer [][]string
		for _, s := range last {
			for _, item := range items {
				longer = append(longer, append(s[:len(s):len(s)], item))
			}
		}
		all, last = append(all, longer...), longer
	}
	return all
}

func matchesSegments(pattern, path []string) bool {
	var b strings.Builder
	for _, p := range pattern {
		b.WriteString(map[string]string{"a": "/a", "*": "/[^/]+", "**": "(/[^/]*)*"}[p])
	}
	return regexp.MustCompile("^" + b.String() + "$").MatchString(strings.Join(append([]string{""}, path...), "/"))
}
