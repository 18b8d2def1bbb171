package matrix

import (
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Cell is what one subject may do with a port of a host.
type Cell struct {
	Subject   Subject  `json:"subject"`
	Host      string   `json:"host"`
	Port      uint32   `json:"port"`
	Protocol  string   `json:"protocol"`            // HTTP, TLS or TCP, as it is tried
	Verdict   string   `json:"verdict"`             // allow, deny, or depends
	DependsOn []string `json:"dependsOn,omitempty"` // method, path, header; address, of AuthorizationPolicies
	By        []By     `json:"by"`                  // one, or those that depend
	WouldDeny bool     `json:"wouldDeny,omitempty"` // if the policies that are observed were enforced, to a GET of / where it is HTTP
}

// By is what decides, and what it says.
type By struct {
	Verdict string `json:"verdict"`
	policy.DecidedBy
}

// The verdicts.
const (
	Allow   = "allow"
	Deny    = "deny"
	Depends = "depends"
)

// decide fills a cell with what policy.Decide says of the destination: for HTTP, of requests of each sort that rules tell apart.
func decide(s *registry.Snapshot, subject Subject, t target, at time.Time) Cell {
	w, d := subject.workload(), t.destination(at)
	c := Cell{Subject: subject, Host: t.host, Port: t.port, Protocol: protocols[t.scheme]}
	first := policy.Decide(s, w, d)
	c.WouldDeny = first.WouldDeny != nil || first.Authorization.WouldDeny != nil
	c.take(first)
	if first.Asked != nil && first.Asked.Protocol == egresspolicy.HTTP {
		c.probe(s, w, d, first)
	}
	if on := first.Authorization.Depends(); len(on) > 0 {
		c.Verdict, c.DependsOn = Depends, slices.Compact(slices.Sorted(slices.Values(append(c.DependsOn, on...))))
	}
	return c
}

// probe takes what is said of requests of each sort that rules of EgressPolicies tell apart.
func (c *Cell) probe(s *registry.Snapshot, w policy.Workload, d policy.Destination, first policy.Verdict) {
	requests, all := probes(d, telling(first))
	for _, r := range requests {
		c.take(policy.Decide(s, w, r))
	}
	if !all {
		c.Verdict = Depends
	}
	if c.Verdict != Depends {
		c.DependsOn = nil
	}
}

// take adds what is said of a request.
func (c *Cell) take(v policy.Verdict) {
	by := By{Deny, policy.DecidedBy{Kind: string(v.DecidedBy.Kind), Namespace: v.DecidedBy.Namespace, Name: v.DecidedBy.Name, Rule: v.DecidedBy.Rule}}
	if v.Allowed {
		by.Verdict = Allow
		if r := v.Authorization.Ruling; r != nil {
			by.DecidedBy = policy.DecidedBy{Kind: string(r.Policy.Key.Kind), Namespace: r.Policy.Key.Namespace, Name: r.Policy.Key.Name, Rule: r.RuleName()}
		}
		if r := v.Ruling; r != nil {
			by.DecidedBy = policy.DecidedBy{Kind: string(r.Policy.Key.Kind), Namespace: r.Policy.Key.Namespace, Name: r.Policy.Key.Name, Rule: r.RuleName()}
		}
	}
	if v.Ruling != nil && v.Ruling.Rule != nil {
		c.dependOn(v.Ruling.Rule)
	}
	switch {
	case c.Verdict == "":
		c.Verdict = by.Verdict
	case c.Verdict != by.Verdict:
		c.Verdict = Depends
	}
	if !slices.Contains(c.By, by) {
		c.By = append(c.By, by)
	}
}

func (c *Cell) dependOn(r *egresspolicy.Rule) {
	for _, part := range []struct {
		name string
		n    int
	}{{"method", len(r.Methods)}, {"path", len(r.Paths)}, {"header", len(r.Headers)}} {
		if part.n > 0 && !slices.Contains(c.DependsOn, part.name) {
			c.DependsOn = append(c.DependsOn, part.name)
		}
	}
}

// Words is the verdict in a few words: "depends on method, path".
func (c Cell) Words() string {
	if c.Verdict == Depends && len(c.DependsOn) > 0 {
		return "depends on " + strings.Join(c.DependsOn, ", ")
	}
	return c.Verdict
}

// Why names what decides.
func (c Cell) Why() string {
	var out []string
	for _, by := range c.By {
		text := by.Kind
		if by.Name != "" {
			text += " " + by.Namespace + "/" + by.Name + " (" + by.Rule + ")"
		}
		if len(c.By) > 1 {
			text = by.Verdict + " by " + text
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}
