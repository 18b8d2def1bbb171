package authz

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/selection"
)

// Policy is one AuthorizationPolicy.
type Policy struct {
	Key      config.Key
	Revision string
	Action   Action
	Provider string // of Custom: the name of the authorizer that is asked
	DryRun   bool   // what it denies is let through, and recorded
	selection.Workloads
	Rules []Rule
}

// Action is what becomes of what a rule matches.
type Action uint8

// The actions. Audited ones decide nothing, they only mark; Custom ones have an authorizer asked, which decides.
const (
	Allow Action = iota
	Deny
	Audit
	Custom
)

// Rule matches when one of its sources, one of its operations and all of its conditions do.
type Rule struct {
	Name string // rules[N]
	// From and To are alternatives, each of terms that all have to hold; nil asks for nothing.
	From, To [][]Term
	When     []Term
}

// Attribute is what a term is about.
type Attribute uint8

// The attributes. Those from Host on are of requests alone.
const (
	Principal Attribute = iota
	Namespace
	ServiceAccount // "NAMESPACE/ACCOUNT"
	TrustDomain
	SourceIP
	RemoteIP
	Port
	DestinationIP // the address that it came to: the pod's
	SNI
	Host
	Method
	Path
	Header
	RequestPrincipal // "ISSUER/SUBJECT" of a token that was verified
	Claim            // one of its claims
)

// Term asks for an attribute: for one of Values, if there are any, and for none of Not.
type Term struct {
	Attribute
	Header      string   // its name, in lower case
	Claim       []string // the claim's name, and those of claims within it
	Values, Not []string
	// Ranges and NotRanges are the values of addresses.
	Ranges, NotRanges []netip.Prefix
	// Folds says that the values of a method are meant in all letters: of what denies, and of what lets through all but these. Servers that fold methods run "delete", which HTTP/2
	// carries, as DELETE (docs/adr/0193-what-denies-means-what-servers-make-of-it.md).
	Folds bool
}

// OfRequests says whether the term is about requests alone, that a proxy reads.
func (t Term) OfRequests() bool { return t.Attribute >= Host }

// OfRequests says whether a term of the rule is about requests alone.
func (r *Rule) OfRequests() bool { return r.any(Term.OfRequests) }

// Tells says whether the rule asks for anything that is seen of connections.
func (r *Rule) Tells() bool { return r.any(func(t Term) bool { return !t.OfRequests() }) }

func (r *Rule) any(is func(Term) bool) bool {
	has := func(list []Term) bool { return slices.ContainsFunc(list, is) }
	return slices.ContainsFunc(r.From, has) || slices.ContainsFunc(r.To, has) || has(r.When)
}

// OfConnections is the rule as it is asked about what is no request, by a policy with that action; nil where it never matches. As in Istio, a
// rule that allows is not for what it cannot see, and others take what they cannot see for what they mean.
func (r *Rule) OfConnections(action Action) *Rule {
	if !r.OfRequests() {
		return r
	}
	if action == Allow {
		return nil
	}
	return &Rule{Name: r.Name, From: connectionTerms(r.From), To: connectionTerms(r.To), When: withoutRequests(r.When)}
}

// ToAnyAddress is the rule as it is asked, by a policy with that action, where nobody can tell the address that something came to; nil where it never matches. It closes, as
// that of connections: it allows nothing, and what it denies, or has somebody asked about, it denies whatever the address.
func (r *Rule) ToAnyAddress(action Action) *Rule {
	if !r.AsksDestination() {
		return r
	}
	if action == Allow {
		return nil
	}
	return &Rule{Name: r.Name, From: r.From, To: r.To, When: slices.DeleteFunc(slices.Clone(r.When), Term.ofDestination)}
}

// AsksDestination says whether a rule asks for the address that something came to.
func (r *Rule) AsksDestination() bool { return slices.ContainsFunc(r.When, Term.ofDestination) }

func (t Term) ofDestination() bool { return t.Attribute == DestinationIP }

// connectionTerms are alternatives without what is about requests; one of which nothing is left asks for nothing.
func connectionTerms(list [][]Term) (out [][]Term) {
	for _, terms := range list {
		left := withoutRequests(terms)
		if len(left) == 0 {
			return nil
		}
		out = append(out, left)
	}
	return out
}

func withoutRequests(terms []Term) []Term {
	return slices.DeleteFunc(slices.Clone(terms), Term.OfRequests)
}

// Compare puts policies in order, which has no meaning but for which of several is named: by namespace and name.
func (p *Policy) Compare(o *Policy) int {
	return cmp.Or(strings.Compare(p.Key.Namespace, o.Key.Namespace), strings.Compare(p.Key.Name, o.Key.Name))
}
