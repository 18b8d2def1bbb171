package policy

import "github.com/sallyport/sallyport/serviceentry/egresspolicy"

// PolicyStep is one rule of an EgressPolicy that was asked, or a default.
type PolicyStep struct {
	Level     string `json:"level"` // root, or namespace: the workload's own
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Rule      string `json:"rule"`
	Action    string `json:"action"` // Allow or Deny
	Mode      string `json:"mode"`   // Enforce or Observe
	Matched   bool   `json:"matched"`
	Why       string `json:"why"` // it does not match; "" where it does
	Decides   bool   `json:"decides"`
}

func policySteps(v Verdict) []PolicyStep {
	out := []PolicyStep{}
	if v.Asked == nil {
		return out
	}
	for _, s := range v.Policies.Steps(v.Asked) {
		step := PolicyStep{
			Level: "namespace", Namespace: s.Policy.Key.Namespace, Name: s.Policy.Key.Name, Rule: s.RuleName(), Action: s.Action.String(),
			Mode: s.Policy.Mode(), Matched: s.Miss == egresspolicy.Hit, Why: string(s.Miss), Decides: s.Decides,
		}
		if s.Root {
			step.Level = "root"
		}
		out = append(out, step)
	}
	return out
}
