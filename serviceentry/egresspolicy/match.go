package egresspolicy

import (
	"slices"
	"strings"
	"time"
)

// Attempt is what a proxy sees of a request or a connection.
type Attempt struct {
	Host     string // in lower case; the address, where no name is shown
	Port     uint32
	Protocol Protocol
	Method   string // of HTTP, as are the others
	Path     string // without its query
	Header   func(name string) (value string, has bool)
	// PathUnknown, where nobody knows the path, is told that a rule asks for it; the rule is then taken not to match.
	PathUnknown func()
	At          time.Time
	// Closed is, of a host that nobody registered and that only rules let out (Rule.Unregistered), what stands for its being closed
	// otherwise; nil of what is registered.
	Closed *Policy
}

// Active says whether the rule counts at a time.
func (r *Rule) Active(at time.Time) bool {
	return (r.From.IsZero() || !at.Before(r.From)) && (r.Until.IsZero() || at.Before(r.Until))
}

// Mismatch is why a rule is not for what is asked.
type Mismatch string

// The misses. Hit is none.
const (
	Hit           Mismatch = ""
	NotYet        Mismatch = "has not begun"
	Ended         Mismatch = "has ended"
	OtherHost     Mismatch = "other hosts"
	OtherPort     Mismatch = "other ports"
	OtherProtocol Mismatch = "other protocols"
	NotRead       Mismatch = "of requests only, which no proxy reads here"
	OtherMethod   Mismatch = "other methods"
	OtherHeaders  Mismatch = "other headers"
	OtherPath     Mismatch = "other paths"
)

// Matches says whether the rule is for what is asked.
func (r *Rule) Matches(a *Attempt) bool { return r.Mismatch(a) == Hit }

// Mismatch gives the first thing that the rule asks for and that is not so.
func (r *Rule) Mismatch(a *Attempt) Mismatch {
	switch {
	case !r.From.IsZero() && a.At.Before(r.From):
		return NotYet
	case !r.Active(a.At):
		return Ended
	case !r.MeansHost(a.Host):
		return OtherHost
	case len(r.Ports) > 0 && !slices.Contains(r.Ports, a.Port):
		return OtherPort
	case len(r.Protocols) > 0 && !slices.Contains(r.Protocols, a.Protocol):
		return OtherProtocol
	case !r.ReadsRequests():
		return Hit
	case a.Protocol != HTTP:
		return NotRead
	default:
		return r.missesRequest(a)
	}
}

// MeansHost says whether one of the rule's hosts is, or covers, a name.
func (r *Rule) MeansHost(name string) bool {
	return len(r.Hosts) == 0 || slices.ContainsFunc(r.Hosts, func(p string) bool { return Covers(p, name) })
}

// Covers says whether a pattern, exact, "*.suffix" or "*", covers a name.
func Covers(pattern, name string) bool {
	if pattern == "*" || pattern == name {
		return true
	}
	suffix, wild := strings.CutPrefix(pattern, "*.")
	return wild && len(name) > len(suffix)+1 && strings.HasSuffix(name, "."+suffix)
}

func (r *Rule) missesRequest(a *Attempt) Mismatch {
	if len(r.Methods) > 0 && !slices.ContainsFunc(r.Methods, func(m string) bool { return m == a.Method || r.Action == Deny && strings.EqualFold(m, a.Method) }) {
		return OtherMethod // what denies means them in all letters (MethodsRegex)
	}
	for _, h := range r.Headers {
		if !slices.ContainsFunc(HeaderNames(h.Name, r.Action == Deny), func(name string) bool {
			value, has := a.Header(name)
			return has && Matches(ValueRegex(h.Value, r.Action == Deny), value)
		}) {
			return OtherHeaders
		}
	}
	if len(r.Paths) > 0 && a.PathUnknown != nil {
		a.PathUnknown()
		return OtherPath
	}
	if len(r.Paths) > 0 && !slices.ContainsFunc(r.Paths, func(p string) bool { return Matches(PathRegex(p, r.Action == Deny), a.Path) }) {
		return OtherPath
	}
	return Hit
}
