package authz

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
)

// Attempt is what a proxy sees of a request or a connection.
type Attempt struct {
	Domains []string // the mesh's trust domain, and its aliases
	Client  string   // the SPIFFE id that it showed; "" for none
	// From and Remote are the client's addresses: that of the connection, and that of whoever is behind. Not valid where nobody knows.
	From, Remote netip.Addr
	// Authority is the host that is asked for and its port, which may be missing for 80.
	Authority string
	TLS       bool // the workload speaks TLS itself, and the host is the name that it says there
	// Port is what a pod's proxy, or an ingress gateway, listens at, and SNI the name that the connection's TLS asks for there. 0: of an egress
	// gateway, which is asked for both by the authority.
	Port    uint32
	SNI     string
	Request *Request // nil of a connection whose bytes nobody reads
	// To is the address that it came to, a pod's own. Not valid where nobody knows it, and at egress gateways and waypoints, which do not see it: rules that ask for it close there.
	To netip.Addr
	// AddressAsked, if there is one, is told that a rule asks for an address that nobody knows; the rule is then taken not to match.
	AddressAsked func()
	// DestinationAsked, if there is one, is told that a rule asks for To where that is not valid.
	DestinationAsked func()
}

// Request is what is seen of one.
type Request struct {
	Method, Path string // the path with its query
	Header       func(name string) (value string, has bool)
	// Claim gives a claim's texts, of a token that was verified: of a list those in it. nil where there is no token.
	Claim func(path []string) []string
	// TokenAsked, if there is one, is told that a rule asks for a token.
	TokenAsked func()
	// PathUnknown, where nobody knows the path, is told that a rule asks for it; the rule is then taken not to match.
	PathUnknown func()
}

func (r *Rule) matches(a *Attempt, action Action) bool {
	if a.Request == nil {
		if r = r.OfConnections(action); r == nil {
			return false
		}
	}
	if !a.To.IsValid() && r.AsksDestination() {
		if a.DestinationAsked != nil {
			a.DestinationAsked()
		}
		if r = r.ToAnyAddress(action); r == nil {
			return false
		}
	}
	all := func(terms []Term) bool {
		return !slices.ContainsFunc(terms, func(t Term) bool { return !t.holds(a, action) })
	}
	any := func(list [][]Term) bool { return len(list) == 0 || slices.ContainsFunc(list, all) }
	return any(r.From) && any(r.To) && all(r.When)
}

func (t Term) holds(a *Attempt, action Action) bool {
	if (t.Attribute == SourceIP || t.Attribute == RemoteIP) && !a.address(t.Attribute).IsValid() {
		if a.AddressAsked != nil {
			a.AddressAsked()
		}
		return false
	}
	if t.Attribute == Path && a.Request.PathUnknown != nil {
		a.Request.PathUnknown()
		return false
	}
	if t.Attribute == Path && egresspolicy.Matches(Abnormal, a.Request.Path) {
		return action != Allow
	}
	one := func(values []string, ranges []netip.Prefix) bool {
		if t.Attribute.isAddress() {
			return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a.address(t.Attribute)) })
		}
		switch t.Attribute {
		case Port:
			if a.Port != 0 {
				return slices.Contains(values, strconv.FormatUint(uint64(a.Port), 10))
			}
		case RequestPrincipal:
			return a.Request.isSubject(values)
		case Claim:
			return len(values) > 0 && slices.ContainsFunc(a.Request.claim(t.Claim), func(text string) bool { return egresspolicy.Matches(t.Expression(values, nil), text) })
		}
		text, has := a.text(t)
		return has && len(values) > 0 && egresspolicy.Matches(t.Expression(values, a.Domains), text)
	}
	wants := len(t.Values)+len(t.Ranges) > 0
	return (!wants || one(t.Values, t.Ranges)) && !one(t.Not, t.NotRanges)
}

func (r *Request) claim(path []string) []string {
	if r.TokenAsked != nil {
		r.TokenAsked()
	}
	if r.Claim == nil {
		return nil
	}
	return r.Claim(path)
}

func (r *Request) isSubject(values []string) bool {
	like := func(path, expression string) bool {
		return slices.ContainsFunc(r.claim([]string{path}), func(text string) bool { return egresspolicy.Matches(expression, text) })
	}
	return slices.ContainsFunc(Subjects(values), func(s Subject) bool { return like("iss", s.Issuer) && like("sub", s.Subject) })
}

func (a *Attempt) address(of Attribute) netip.Addr {
	switch of {
	case RemoteIP:
		return a.Remote
	case DestinationIP:
		return a.To
	default:
		return a.From
	}
}

func (a Attribute) isAddress() bool { return a == SourceIP || a == RemoteIP || a == DestinationIP }

// text is what a term's expression is held against; false for what is not there.
func (a *Attempt) text(t Term) (string, bool) {
	switch t.Attribute {
	case Principal, Namespace, ServiceAccount, TrustDomain:
		return a.Client, a.Client != ""
	case SNI:
		if a.Port != 0 {
			return a.SNI, a.SNI != ""
		}
		return a.Authority, a.TLS
	case Method:
		return a.Request.Method, true
	case Path:
		return a.Request.Path, true
	case Header:
		return a.Request.Header(t.Header)
	default:
		return a.Authority, true
	}
}
