package egresspolicy

import (
	"slices"
	"strings"
)

// mostJoints is of how many dashes and underscores of a header's name each mixture is meant; of a name with more, those with the same at all of them.
const mostJoints = 4

// HeaderNames are the names by which a rule's header may come, the rule's own first. Servers that make variables of headers (CGI, RFC 3875 section 4.1.18, and what descends from it: WSGI, PHP) take "x_debug" for "x-debug", so what
// denies means both.
func HeaderNames(name string, denies bool) []string {
	out := []string{name}
	if !denies {
		return out
	}
	var joints []int
	for i := range len(name) {
		if name[i] == '-' || name[i] == '_' {
			joints = append(joints, i)
		}
	}
	if len(joints) > mostJoints {
		out = append(out, strings.ReplaceAll(name, "_", "-"), strings.ReplaceAll(name, "-", "_"))
	} else {
		for mixture := range 1 << len(joints) {
			other := []byte(name)
			for bit, at := range joints {
				other[at] = "-_"[mixture>>bit&1]
			}
			out = append(out, string(other))
		}
	}
	slices.Sort(out[1:])
	rest := slices.DeleteFunc(slices.Compact(out[1:]), func(s string) bool { return s == name })
	return out[:1+len(rest)]
}
