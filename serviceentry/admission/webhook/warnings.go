package webhook

import (
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/admission"
)

// Limits of what the API server passes on, in bytes: a message, and all of an answer
// (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response).
const (
	maxWarning  = 256
	maxWarnings = 4096
)

// warnings are the findings that are no errors, each once, cut to what the API server passes on.
func warnings(findings []admission.Finding) []string {
	var all, out []string
	seen := map[string]bool{}
	for _, f := range findings {
		if what := f.What(); f.Severity == admission.Warning && !seen[what] {
			seen[what] = true
			all = append(all, what)
		}
	}
	room := maxWarnings - maxWarning // for the last one
	for i, w := range all {
		if len(w) > maxWarning {
			w = strings.ToValidUTF8(w[:maxWarning-3], "") + "..."
		}
		if room -= len(w); room < 0 {
			return append(out, fmt.Sprintf("and %d more warnings; see sallyport lint", len(all)-i))
		}
		out = append(out, w)
	}
	return out
}
