package judge

import (
	"fmt"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/sidecar/verify"
)

// Facts are what is known of where ways were tried. The zero value is of one who knows nothing.
type Facts struct {
	// Decide says what the control plane would decide about a URL, as "sallyport explain" reads it; nil where it cannot be asked.
	Decide func(url string) (policy.Explanation, error)
	// Pod is the pod that it was tried in; nil outside of a cluster.
	Pod *Pod
	// Holder is what keeps the pod inside beside its own proxy; the zero Key for nothing.
	Holder config.Key
	// Up says that it was tried through the proxy of "sallyport up".
	Up bool
}

// Finding is a result, and what it means.
type Finding struct {
	verify.Result
	DecidedBy *policy.DecidedBy `json:"decidedBy,omitempty"` // the object, where one decides
	Why       string            `json:"why"`                 // closed by what, or why it is open
	Fix       string            `json:"fix,omitempty"`       // what to write, or to do
}

// Judge gives each result its meaning.
func Judge(r verify.Report, f Facts) []Finding {
	out := make([]Finding, len(r.Results))
	for i, result := range r.Results {
		out[i] = f.judge(result)
	}
	return out
}

func (f Facts) judge(r verify.Result) Finding {
	finding := Finding{Result: r}
	e, known := f.decision(r)
	if known {
		finding.DecidedBy = &e.DecidedBy
	}
	switch r.Verdict {
	case verify.Skipped:
		finding.Why, finding.Fix = r.Seen, "give "+r.Needs
		if r.Needs == "" {
			finding.Fix = ""
		}
	case verify.Open:
		finding.Why, finding.Fix = r.Seen, f.fix(r, e, known)
	default:
		f.attribute(&finding, e, known)
	}
	return finding
}

// decision asks the control plane about what a proxy, or nobody, took. What a resolver took, no connection was decided for.
func (f Facts) decision(r verify.Result) (policy.Explanation, bool) {
	if f.Decide == nil || r.URL == "" || r.Verdict == verify.Skipped {
		return policy.Explanation{}, false
	}
	e, err := f.Decide(r.URL)
	return e, err == nil
}

// attribute says by what something that got no answer is closed, or that nobody can tell.
func (f Facts) attribute(finding *Finding, e policy.Explanation, known bool) {
	r := finding.Result
	denied, caught := known && e.Verdict != "allow", f.caught(r)
	finding.Why = r.Seen
	switch {
	case denied && (caught || r.Taken == verify.ByResolver):
		finding.Verdict = verify.Closed
		finding.Why = fmt.Sprintf("closed by %s (%s): %s", object(e.DecidedBy), e.DecidedBy.Rule, r.Seen)
		return
	case r.Way == "quic" && r.Taken == verify.ByRules:
		finding.Why = "closed by the init step's rules, chain SALLYPORT_QUIC (--block-quic): " + r.Seen
	case r.Taken == verify.ByResolver, r.Taken == verify.ByRules:
	case f.Holder != (config.Key{}) && (known || !caught):
		finding.Verdict = verify.Closed
		finding.Why = fmt.Sprintf("held by %s, behind the pod's proxy: %s", f.Holder, r.Seen)
	case known && caught:
		finding.Verdict = verify.Unclear
		finding.Why = fmt.Sprintf("%s lets it pass (%s), and nobody answered: %s", object(e.DecidedBy), e.DecidedBy.Rule, r.Seen)
		finding.Fix = "give a target that answers, to see whether anything else holds it"
		return
	case !caught && f.Pod.exemption(r) != "":
		finding.Verdict = verify.Unclear
		finding.Why = fmt.Sprintf("%s keeps it from being caught, and nobody answered: %s", f.Pod.exemption(r), r.Seen)
		finding.Fix = f.Pod.fixCapture(r)
	case r.Verdict == verify.Unclear:
		finding.Fix = "give a target that answers, and try again"
	}
	finding.DecidedBy = nil
}

// caught says whether a proxy took it, whose decision counts.
func (f Facts) caught(r verify.Result) bool {
	return f.Up || r.Taken != "" && r.Taken != verify.ByResolver && r.Taken != verify.ByRules
}

func object(d policy.DecidedBy) string {
	return config.Key{Kind: config.Kind(d.Kind), Namespace: d.Namespace, Name: d.Name}.String()
}
