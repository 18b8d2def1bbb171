package egresspolicy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/config"
)

// Policy is one EgressPolicy.
type Policy struct {
	Key      config.Key
	Revision string
	Created  time.Time // zero when nobody knows
	Selector
	Observe bool // what it denies is let through, and recorded
	Rules   []Rule
	Default Action // Unset: Deny once a rule allows something, else nothing is said

	closes bool // a rule that is left out allows something (Level.About)
}

// Ends says whether a rule of it does.
func (p *Policy) Ends() bool {
	return slices.ContainsFunc(p.Rules, func(r Rule) bool { return !r.Until.IsZero() })
}

// Mode is how an object writes whether it is observed.
func (p *Policy) Mode() string {
	if p.Observe {
		return "Observe"
	}
	return "Enforce"
}

// Selector says which workloads are meant: those for which all of it holds.
type Selector struct {
	Labels     map[string]string
	Accounts   []string
	Namespaces *Namespaces // of policies of the root namespace; nil: all
}

// Namespaces says which ones: these, and those with all of the labels.
type Namespaces struct {
	Names  []string
	Labels map[string]string
}

// Action is what a rule does.
type Action uint8

// The actions.
const (
	Unset Action = iota
	Allow
	Deny
)

// String is how an object writes it; "" for Unset.
func (a Action) String() string { return [...]string{"", "Allow", "Deny"}[a] }

// Protocol is what a proxy sees of what a client speaks.
type Protocol string

// The protocols.
const (
	HTTP Protocol = "HTTP"
	TLS  Protocol = "TLS"
	TCP  Protocol = "TCP"
)

// Rule is one rule. What is empty asks for nothing.
type Rule struct {
	Name      string // its own, or rules[N]
	Hosts     []string
	Ports     []uint32
	Protocols []Protocol
	Methods   []string
	Paths     []string
	Headers   []Header
	Action    Action
	// From and Until bound when it counts; the zero time does not.
	From, Until   time.Time
	Reason, Owner string
	// Final lets nobody narrow it, of an Allow rule of the root namespace.
	Final bool
	// Unregistered says that it lets out to its hosts where nobody registered them, of an Allow rule of the root namespace.
	Unregistered bool
}

// Header asks for one of a request's headers. "*" in Value stands for any characters.
type Header struct{ Name, Value string }

// ReadsRequests says whether the rule is about requests alone, that a proxy reads.
func (r *Rule) ReadsRequests() bool { return len(r.Methods)+len(r.Paths)+len(r.Headers) > 0 }

// implied is what the policy says of what no rule matches.
func (p *Policy) implied() Action {
	if p.closes {
		return Deny
	}
	for i := range p.Rules {
		if p.Rules[i].Action == Allow {
			return Deny
		}
	}
	return Unset
}

// Compare puts the policies of a level in order: who selects more closely comes first, then who is older, then the name.
func (p *Policy) Compare(o *Policy) int {
	return cmp.Or(
		cmp.Compare(len(o.Labels), len(p.Labels)),
		first(len(p.Accounts) > 0, len(o.Accounts) > 0),
		first(p.Namespaces != nil, o.Namespaces != nil),
		first(!p.Created.IsZero(), !o.Created.IsZero()),
		p.Created.Compare(o.Created),
		strings.Compare(p.Key.Name, o.Key.Name),
	)
}

// first puts who has something before who does not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// ByLabels says whether the policy selects by labels.
func (p *Policy) ByLabels() bool { return len(p.Labels) > 0 }

func (p *Policy) observed() bool { return p.Observe }

// Selecting gives those of the level that select a workload of their namespaces, by its account and labels.
func (l Level) Selecting(account string, labels map[string]string) Level {
	var out Level
	for _, p := range l {
		if p.selects(account, labels) {
			out = append(out, p)
		}
	}
	return out
}

func (p *Policy) selects(account string, labels map[string]string) bool {
	if len(p.Accounts) > 0 && !slices.Contains(p.Accounts, account) {
		return false
	}
	for k, v := range p.Labels {
		if has, ok := labels[k]; !ok || has != v {
			return false
		}
	}
	return true
}
