package policy

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
)

// Explanation is a verdict as `explain -o json` prints it.
type Explanation struct {
	Verdict    string    `json:"verdict"` // allow or deny
	Path       string    `json:"path"`
	Cluster    string    `json:"cluster"`
	Gateway    string    `json:"gateway"`            // NAMESPACE/SERVICE, or ""
	Waypoint   string    `json:"waypoint,omitempty"` // NAMESPACE/NAME of its Gateway
	DecidedBy  DecidedBy `json:"decidedBy"`
	Reason     string    `json:"reason"`
	Suggestion string    `json:"suggestion"` // YAML, or ""
	// Policies are the rules of EgressPolicies that were asked, in order.
	Policies []PolicyStep `json:"policies"`
	// WouldDeny is what would deny it, if the policies that are observed were enforced.
	WouldDeny *DecidedBy `json:"wouldDeny,omitempty"`
	// Authorization are the rules of AuthorizationPolicies that the gateway, the waypoint or the pod asks, in order.
	Authorization []PolicyStep `json:"authorization,omitempty"`
	// Server is what takes it at an ingress gateway, and TLS what becomes of TLS there, as Istio calls it. Status is what the gateway answers itself, and
	// Location where a redirect leads.
	Server   *DecidedBy `json:"server,omitempty"`
	TLS      string     `json:"tls,omitempty"`
	Status   uint32     `json:"status,omitempty"`
	Location string     `json:"location,omitempty"`
	// Unanswered says of what is allowed that nobody is known who would answer it, as the reason says.
	Unanswered bool `json:"unanswered,omitempty"`
	// Mode is what the pod takes at the port, of what comes to one: PERMISSIVE, STRICT or DISABLE.
	Mode string `json:"mode,omitempty"`
	// Pods are what the pods say that it comes to, of a service of the mesh: those together that say the same.
	Pods []PodsAnswer `json:"pods,omitempty"`
}

// PodsAnswer is what some pods say to what comes to them.
type PodsAnswer struct {
	Addresses     []string     `json:"addresses"`
	Port          uint32       `json:"port"`
	MutualTLS     bool         `json:"mutualTLS"`
	Mode          string       `json:"mode,omitempty"`
	Verdict       string       `json:"verdict"` // allow, deny, or unknown
	DecidedBy     DecidedBy    `json:"decidedBy"`
	Reason        string       `json:"reason"`
	Authorization []PolicyStep `json:"authorization,omitempty"`
}

// ExplainReached is Explain, with what the pods say.
func ExplainReached(from Workload, d Destination, v Verdict, pods []PodsVerdict) Explanation {
	e := Explain(from, d, v)
	for i := range pods {
		p := &pods[i]
		e.Pods = append(e.Pods, PodsAnswer{
			Addresses: p.Addresses, Port: p.Port, MutualTLS: p.Mutual, Mode: p.Mode, Verdict: p.word(),
			DecidedBy: objectOf(p.DecidedBy), Reason: p.Reason, Authorization: p.Authorization.steps(levelPod),
		})
	}
	return e
}

func (r *PodsVerdict) word() string {
	if r.Unknown {
		return "unknown"
	}
	return verdictWord(r.Allowed)
}

func verdictWord(allowed bool) string { return map[bool]string{true: "allow", false: "deny"}[allowed] }

func objectOf(o Object) DecidedBy { return DecidedBy{string(o.Kind), o.Namespace, o.Name, o.Rule} }

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
		Verdict: verdictWord(v.Allowed), Path: v.Path, Cluster: v.Cluster, Reason: v.Reason, Mode: v.Mode,
		DecidedBy:  objectOf(v.DecidedBy),
		Suggestion: Suggestion(from, d, v),
		Policies:   policySteps(v), Authorization: append(v.Before.steps(levelGateway), v.Authorization.steps(levelOf(v))...),
		TLS: v.Server.TLS, Status: v.Status, Location: v.Location, Unanswered: v.Allowed && v.Unanswered,
	}
	if v.Server.Kind != "" {
		server := objectOf(v.Server.Object)
		e.Server = &server
	}
	if w := v.Authorization.WouldDeny; w != nil {
		e.WouldDeny = &DecidedBy{string(w.Policy.Key.Kind), w.Policy.Key.Namespace, w.Policy.Key.Name, w.RuleName()}
	}
	if w := v.WouldDeny; w != nil {
		e.WouldDeny = &DecidedBy{string(w.Policy.Key.Kind), w.Policy.Key.Namespace, w.Policy.Key.Name, w.RuleName()}
	}
	if !v.Waypoint.IsZero() {
		e.Waypoint = v.Waypoint.String()
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
	if strings.Trim(ns, lowerCase+"-") != "" {
		return Workload{}, fmt.Errorf("%q: no namespace can be called %q, which nothing would be written for; write lower case letters, digits and dashes", s, ns)
	}
	if strings.Trim(pod, lowerCase+"-.") != "" {
		return Workload{}, fmt.Errorf("%q: no workload can be called %q; write lower case letters, digits, dashes and dots", s, pod)
	}
	labels, err := url.ParseQuery(query)
	if err != nil {
		return Workload{}, fmt.Errorf("%q: the labels must be label=value&…: %w", s, err)
	}
	w := Workload{Namespace: ns, Name: pod, Labels: map[string]string{}}
	for k, values := range labels {
		if len(values) > 1 {
			return Workload{}, fmt.Errorf("%q: the label %q is there %d times, and has one value", s, k, len(values))
		}
		if strings.Trim(k, ofLabels+"/") != "" || strings.Trim(values[0], ofLabels) != "" {
			return Workload{}, fmt.Errorf("%q: no label can be %q; write letters, digits, dashes, underscores and dots", s, k+"="+values[0])
		}
		w.Labels[k] = values[0]
	}
	return w, nil
}

// What names and labels in a cluster are made of (https://kubernetes.io/docs/concepts/overview/working-with-objects/names/).
const (
	lowerCase = "abcdefghijklmnopqrstuvwxyz0123456789"
	ofLabels  = lowerCase + "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_."
)

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
