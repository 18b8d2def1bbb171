package review

import (
	"fmt"
	"strings"
)

// Limits of what the API server passes on, in bytes: a message, and all of an answer
// (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response).
const (
	maxWarning  = 256
	maxWarnings = 4096
)

// Fit cuts warnings to what the API server passes on. Where there is no room for all, the last one says how many are
// left out, followed by seeing: where to see them, such as "; see FILE".
func Fit(warnings []string, seeing string) []string {
	var out []string
	room := maxWarnings - maxWarning // for the last one
	for i, w := range warnings {
		if len(w) > maxWarning {
			w = strings.ToValidUTF8(w[:maxWarning-3], "") + "..."
		}
		if room -= len(w); room < 0 {
			return append(out, fmt.Sprintf("and %d more warnings%s", len(warnings)-i, seeing))
		}
		out = append(out, w)
	}
	return out
}
