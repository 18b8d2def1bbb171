package matrix

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// PolicySummary is a policy at a glance.
type PolicySummary struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Selects   string     `json:"selects"`
	Mode      string     `json:"mode"`
	Rules     int        `json:"rules"`
	Default   string     `json:"default"` // Allow, Deny, or ""
	Implied   bool       `json:"implied"` // the default is that of a policy which allows something
	Ended     int        `json:"ended"`   // rules that have
	EndsNext  *time.Time `json:"endsNext,omitempty"`
	EndsRule  string     `json:"endsRule,omitempty"` // the rule that ends next
}

// List gives all policies, in the order in which they are asked within a namespace.
func List(s *registry.Snapshot, at time.Time) []PolicySummary {
	out := []PolicySummary{}
	for _, ns := range s.PolicedNamespaces() {
		for _, p := range s.Policies(ns) {
			out = append(out, summarize(p, ns == s.Mesh.RootNamespace, at))
		}
	}
	return out
}

func summarize(p *egresspolicy.Policy, root bool, at time.Time) PolicySummary {
	action, _ := egresspolicy.Level{p}.Default()
	l := PolicySummary{
		Namespace: p.Key.Namespace, Name: p.Key.Name, Selects: selects(p, root), Mode: p.Mode(), Rules: len(p.Rules),
		Default: action.String(), Implied: action != p.Default,
	}
	for i := range p.Rules {
		switch r := &p.Rules[i]; {
		case r.Until.IsZero():
		case !at.Before(r.Until):
			l.Ended++
		case l.EndsNext == nil || r.Until.Before(*l.EndsNext):
			l.EndsNext, l.EndsRule = &r.Until, r.Name
		}
	}
	return l
}

// selects writes out whom a policy is for.
func selects(p *egresspolicy.Policy, root bool) string {
	out := "all of the namespace"
	switch {
	case root && p.Namespaces == nil:
		out = "all of the mesh"
	case root:
		out = "namespaces " + strings.Join(slices.Concat(p.Namespaces.Names, pairs(p.Namespaces.Labels)), ", ")
	case len(p.Labels)+len(p.Accounts) > 0:
		out = ""
	}
	parts := []string{out}
	if out == "" || out == "all of the mesh" && len(p.Labels)+len(p.Accounts) > 0 {
		parts = nil
	}
	if len(p.Accounts) > 0 {
		parts = append(parts, "accounts "+strings.Join(p.Accounts, ", "))
	}
	if len(p.Labels) > 0 {
		parts = append(parts, "labels "+strings.Join(pairs(p.Labels), ", "))
	}
	return strings.Join(parts, "; ")
}

func pairs(labels map[string]string) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return out
}
