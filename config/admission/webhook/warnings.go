package webhook

import (
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/admission/review"
)

// warnings are the findings that are no errors, each once, cut to what the API server passes on.
func warnings(findings []admission.Finding) []string {
	var all []string
	seen := map[string]bool{}
	for _, f := range findings {
		if what := f.What(); f.Severity == admission.Warning && !seen[what] {
			seen[what] = true
			all = append(all, what)
		}
	}
	return review.Fit(all, "; see sallyport lint")
}
