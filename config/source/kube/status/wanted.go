package status

import (
	"strings"

	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/kube"
	"github.com/sallyport/sallyport/config/source/kube/condition"
)

// maxMessage bounds a condition's message, in bytes.
const maxMessage = 2048

// Details are what the registry made of an object.
type Details struct {
	// Gateway is the egress gateway that the hosts of a ServiceEntry leave by: "NS/SERVICE", or "direct". It is empty
	// when they do not leave the mesh, and for other kinds.
	Gateway string
	// Addresses are those that were made up for the hosts of a ServiceEntry.
	Addresses []condition.Address
	// Revision is the one of an EgressPolicy that is in use, and Rules how many rules that has.
	Revision string
	Rules    int
	// Enforced says whether all proxies that an EgressPolicy is for have it, and Proxies how many do. They are nil before anybody looked: what
	// the status holds of the same edition stays then, so that a control plane that starts takes back nothing of what another one found.
	Enforced *condition.Condition
	Proxies  *condition.Proxies
	// Standard is the status of an object of the Gateway API: a value of one of the API's status types, in which only what is ours
	// is, and no times and generations; nil when it is not ours to say.
	Standard any
	// Warnings are findings beyond those of the source: how the object gets on with others. One of the kinds admission.Judged is Unjudged before anybody looked: the
	// warnings that the status holds of the same edition stay then.
	Warnings []admission.Finding
	Unjudged bool
}

// wanted is the status that an object should have.
func wanted(j kube.Assessment, d Details) condition.Status {
	generation := condition.Generation(j.Generation)
	accepted := condition.Condition{Type: condition.Accepted, Status: "True", Reason: "Accepted", ObservedGeneration: generation}
	reconciled := condition.Condition{Type: condition.Reconciled, Status: "True", Reason: "Applied", ObservedGeneration: generation}
	switch {
	case j.Refused:
		accepted.Status, accepted.Reason, accepted.Message = "False", "Invalid", words(j.Findings, admission.Error)
		reconciled.Status, reconciled.Reason, reconciled.Message = "False", "Invalid", "no version of the object is in use"
		if j.LastGood {
			reconciled.Message = "the last good version of the object is in use"
		}
	case d.Unjudged && j.Held.Warned != nil && j.Held.Warned.ObservedGeneration == generation:
		accepted = *j.Held.Warned
	case len(j.Findings)+len(d.Warnings) > 0:
		accepted.Reason = condition.Warned
		accepted.Message = words(append(j.Findings[:len(j.Findings):len(j.Findings)], d.Warnings...), "")
	}
	s := condition.Status{Conditions: []condition.Condition{accepted, reconciled}}
	if j.LastGood && d.Gateway != "" {
		g := condition.Condition{Type: condition.Gateway, Status: "True", Reason: "Gateway", Message: d.Gateway, ObservedGeneration: generation}
		if d.Gateway == "direct" {
			g.Status, g.Reason = "False", "Direct"
		}
		s.Conditions = append(s.Conditions, g)
	}
	if j.LastGood {
		s.Addresses, s.ObservedRevision, s.Rules = d.Addresses, d.Revision, d.Rules
	}
	if enforced, proxies := d.Enforced, d.Proxies; j.LastGood {
		if held := j.Held.Enforced; enforced == nil && held != nil && held.Revision == d.Revision && held.Condition.ObservedGeneration == generation {
			enforced, proxies = &held.Condition, &held.Proxies
		}
		if enforced != nil {
			c := *enforced
			c.ObservedGeneration, c.Message = generation, cut(c.Message)
			s.Conditions, s.Proxies = append(s.Conditions, c), proxies
		}
	}
	return s
}

// words joins what findings say; severity "" takes all.
func words(findings []admission.Finding, severity admission.Severity) string {
	var lines []string
	for _, f := range findings {
		if severity == "" || f.Severity == severity {
			lines = append(lines, f.What())
		}
	}
	return cut(strings.Join(lines, "\n"))
}

func cut(text string) string {
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage-3], "") + "..."
	}
	return text
}
