package policy

import (
	"fmt"
	"net/url"
	"strings"
)

// Explanation is a verdict as `explain -o json` prints it.
type Explanation struct {
	Verdict    string    `json:"verdict"` // allow or deny
	Path       string    `json:"path"`
	Cluster    string    `json:"cluster"`
	Gateway    string    `json:"gateway"` // NAMESPACE/SERVICE, or ""
	DecidedBy  DecidedBy `json:"decidedBy"`
	Reason     string    `json:"reason"`
	Suggestion string    `json:"suggestion"` // YAML, or ""
	// Policies are the rules of EgressPolicies that were asked, in order.
	Policies []PolicyStep `json:"policies"`
	// WouldDeny is what would deny it, if the policies that are observed were enforced.
	WouldDeny *DecidedBy `json:"wouldDeny,omitempty"`
	// Authorization are the rules of AuthorizationPolicies that the gateway asks, in order.
	Authorization []PolicyStep `json:"authorization,omitempty"`
}

// DecidedBy names an object, and the rule in it.
type DecidedBy struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Rule      string `json:"rule"`
}

// Explain writes a verdict out.
func Explain(from Workload, d Destination, v Verdict) Explanation {
	e := Explanation{
		Verdict: "deny", Path: v.Path, Cluster: v.Cluster, Reason: v.Reason,
		DecidedBy:  DecidedBy{string(v.DecidedBy.Kind), v.DecidedBy.Namespace, v.DecidedBy.Name, v.DecidedBy.Rule},
		Suggestion: Suggestion(from, d, v),
		Policies:   policySteps(v), Authorization: v.Authorization.steps(),
	}
	if w := v.Authorization.WouldDeny; w != nil {
		e.WouldDeny = &DecidedBy{string(w.Policy.Key.Kind), w.Policy.Key.Namespace, w.Policy.Key.Name, w.RuleName()}
	}
	if w := v.WouldDeny; w != nil {
		e.WouldDeny = &DecidedBy{string(w.Policy.Key.Kind), w.Policy.Key.Namespace, w.Policy.Key.Name, w.RuleName()}
	}
	if v.Allowed {
		e.Verdict = "allow"
	}
	if !v.Gateway.IsZero() {
		e.Gateway = v.Gateway.String()
	}
	return e
}

// ParseWorkload reads NAMESPACE/NAME[?label=value&…].
func ParseWorkload(s string) (Workload, error) {
	name, query, _ := strings.Cut(s, "?")
	ns, pod, ok := strings.Cut(name, "/")
	if !ok || ns == "" || pod == "" {
		return Workload{}, fmt.Errorf("%q: must be NAMESPACE/WORKLOAD, like default/app", s)
	}
	labels, err := url.ParseQuery(query)
	if err != nil {
		return Workload{}, fmt.Errorf("%q: the labels must be label=value&…: %w", s, err)
	}
	w := Workload{Namespace: ns, Name: pod, Labels: map[string]string{}}
	for k := range labels {
		w.Labels[k] = labels.Get(k)
	}
	return w, nil
}
