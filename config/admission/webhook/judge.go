package webhook

import (
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/admission/review"
	"github.com/sallyport/sallyport/config/decode"
)

// origin is where findings say that the object is; it is not printed.
const origin = "review.json"

// judge reads the object strictly, as a file with it would be read, and validates it. The object is nil when it cannot be
// read, or is of a kind that is not.
func judge(raw []byte) ([]admission.Finding, *config.Object) {
	read := decode.File(origin, raw)
	findings := read.Findings
	if len(read.Objects) != 1 {
		return findings, nil
	}
	object := &read.Objects[0]
	object.Origin = "cluster"
	return append(findings, admission.Validate(*object)...), object
}

// excuse turns errors that the object had before into warnings. What to do about them may be another thing at each moment.
func excuse(findings, before []admission.Finding) []admission.Finding {
	type fault struct{ field, value, message string }
	old := map[fault]bool{}
	for _, f := range before {
		old[fault{f.Field, f.Value, f.Message}] = true
	}
	for i, f := range findings {
		if old[fault{f.Field, f.Value, f.Message}] {
			findings[i].Severity = admission.Warning
		}
	}
	return findings
}

// maxRefusal bounds a refusal's message, in bytes.
const maxRefusal = 16 << 10

// refusal lists the errors, one a line.
func refusal(findings []admission.Finding) *admissionv1.AdmissionResponse {
	var message strings.Builder
	var causes []metav1.StatusCause
	details, more := &metav1.StatusDetails{}, 0
	for _, f := range findings {
		if f.Severity != admission.Error {
			continue
		}
		line := f.What()
		if f.Key != (config.Key{}) {
			line = f.Key.String() + ": " + line
			details.Kind, details.Name = string(f.Key.Kind), f.Key.Name
		}
		if message.Len()+len(line) > maxRefusal {
			more++
			continue
		}
		if message.Len() > 0 {
			message.WriteByte('\n')
		}
		message.WriteString(line)
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: f.Field, Message: f.What()})
	}
	if more > 0 {
		fmt.Fprintf(&message, "\nand %d more errors; see sallyport lint", more)
	}
	details.Causes = causes
	return &admissionv1.AdmissionResponse{
		Warnings: warnings(findings),
		Result: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			Message: message.String(), Details: details,
		},
	}
}

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
