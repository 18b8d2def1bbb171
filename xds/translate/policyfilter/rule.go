package policyfilter

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	cncfcorev3 "github.com/cncf/xds/go/xds/core/v3"
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// line is one line of a matching tree.
type line = cncfmatcherv3.Matcher_MatcherList_FieldMatcher

// says is what comes of a ruling.
type says func(egresspolicy.Ruling) *envoy.OnMatch

// level renders a level: by the host that is asked for, then rule by rule. Every way ends in a ruling.
func (say says) level(l egresspolicy.Level) *envoy.OnMatch {
	if len(l) == 0 {
		return say(egresspolicy.Ruling{})
	}
	exact, suffixes := patterns(l)
	var below []*line
	for _, suffix := range suffixes {
		below = append(below, envoy.MatchCase(envoy.InputHasSuffix(host(), "."+suffix), say.rules(l, "*."+suffix)))
	}
	otherwise := envoy.OnMatchMatcher(envoy.MatchList(below, say.rules(l, "")))
	if len(exact) == 0 {
		return otherwise
	}
	values := map[string]*envoy.OnMatch{}
	for _, name := range exact {
		values[name] = say.rules(l, name)
	}
	return envoy.OnMatchMatcher(envoy.ExactMatchMap(host(), values, otherwise))
}

// patterns are the hosts that rules name, and the ends of those that they name by patterns, the longest first.
func patterns(l egresspolicy.Level) (exact, suffixes []string) {
	for _, p := range l {
		for i := range p.Rules {
			for _, h := range p.Rules[i].Hosts {
				if suffix, wild := strings.CutPrefix(h, "*."); wild {
					suffixes = append(suffixes, suffix)
				} else if h != "*" {
					exact = append(exact, h)
				}
			}
		}
	}
	slices.Sort(exact)
	slices.SortFunc(suffixes, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	return slices.Compact(exact), slices.Compact(suffixes)
}

// rules are those of a level that mean a host, in order, up to one that asks for nothing more. "*.suffix" is what only patterns mean, and
// "" what only "*" does: no host has such a name, which a rule could name.
func (say says) rules(l egresspolicy.Level, name string) *envoy.OnMatch {
	var lines []*line
	for _, p := range l {
		for i := range p.Rules {
			r := &p.Rules[i]
			if !r.MeansHost(name) || r.ReadsRequests() && len(r.Protocols) > 0 && !slices.Contains(r.Protocols, egresspolicy.HTTP) {
				continue // the latter means nothing at all
			}
			by := say(egresspolicy.Ruling{Action: r.Action, Policy: p, Rule: r})
			asked := conditions(r)
			if len(r.Paths) > 0 {
				lines = append(lines, envoy.MatchCase(envoy.AllOf(append(asked, envoy.InputMatches(path(), egresspolicy.Abnormal))...), say(egresspolicy.Ruling{Action: egresspolicy.Deny, Policy: p, Rule: r, Path: true})))
				asked = append(conditions(r), paths(r))
			}
			if len(asked) == 0 {
				return envoy.OnMatchMatcher(envoy.MatchList(lines, by))
			}
			lines = append(lines, envoy.MatchCase(envoy.AllOf(asked...), by))
		}
	}
	return envoy.OnMatchMatcher(envoy.MatchList(lines, say.byDefault(l)))
}

func (say says) byDefault(l egresspolicy.Level) *envoy.OnMatch {
	action, by := l.Default()
	return say(egresspolicy.Ruling{Action: action, Policy: by})
}

// nothing is what a level says that says nothing.
func nothing() *envoy.OnMatch { return envoy.OnMatchVerdict(wire.NoRule, true) }

func ruling(r egresspolicy.Ruling) *envoy.OnMatch {
	if r.Action == egresspolicy.Unset {
		return nothing()
	}
	return envoy.OnMatchVerdict(Name(r), r.Action == egresspolicy.Allow)
}

const notRegistered = "nobody registered the host, and no rule lets this workload out to it"

// closing is what comes of a ruling about a host that nobody registered: mesh stands for its being closed otherwise.
func closing(mesh string) says {
	closed := envoy.OnMatchVerdict(wire.Rule{Verdict: wire.RuleDenies, Policy: mesh, Rule: egresspolicy.RuleUnregistered, Reason: notRegistered}.String(), false)
	return func(r egresspolicy.Ruling) *envoy.OnMatch {
		if r.Action == egresspolicy.Deny || r.LetsOut() {
			return ruling(r)
		}
		return closed
	}
}

// Name is a ruling as proxies tell of it.
func Name(r egresspolicy.Ruling) string {
	n := wire.Rule{Policy: r.Policy.Key.Namespace + "/" + r.Policy.Key.Name, Rule: r.RuleName(), Revision: r.Policy.Revision, Verdict: wire.RuleDenies}
	if r.Action == egresspolicy.Allow {
		n.Verdict = wire.RuleAllows
	}
	if r.Rule != nil {
		n.Reason, n.Owner = r.Rule.Reason, r.Rule.Owner
		if r.Action == egresspolicy.Allow && r.Rule.Final {
			n.Verdict = wire.RuleFinal
		}
		if r.Action == egresspolicy.Allow && !r.Rule.Until.IsZero() {
			n.Until = r.Rule.Until.UTC().Format(time.RFC3339)
		}
	}
	return n.String()
}

// conditions are what a rule asks for beside its hosts and paths. What is dear comes last.
func conditions(r *egresspolicy.Rule) (out []*envoy.Predicate) {
	if len(r.Ports) > 0 {
		out = append(out, envoy.InputMatches(port(), ports(r.Ports)))
	}
	if r.ReadsRequests() { // a question about a connection is a request, too
		out = append(out, protocols([]egresspolicy.Protocol{egresspolicy.HTTP}))
	} else if len(r.Protocols) > 0 {
		out = append(out, protocols(r.Protocols))
	}
	if len(r.Methods) > 0 {
		out = append(out, envoy.InputMatches(envoy.HeaderInput(":method"), egresspolicy.MethodsRegex(r.Methods, r.Action == egresspolicy.Deny)))
	}
	for _, h := range r.Headers {
		var names []*envoy.Predicate
		for _, name := range egresspolicy.HeaderNames(h.Name, r.Action == egresspolicy.Deny) {
			names = append(names, envoy.InputMatches(envoy.HeaderInput(name), egresspolicy.ValueRegex(h.Value, r.Action == egresspolicy.Deny)))
		}
		out = append(out, envoy.AnyOf(names...))
	}
	if !r.From.IsZero() {
		out = append(out, envoy.TimeNotBefore(r.From))
	}
	if !r.Until.IsZero() {
		out = append(out, envoy.TimeBefore(r.Until))
	}
	return out
}

// query is an expression for a query, or none.
const query = `(\?.*)?`

func paths(r *egresspolicy.Rule) *envoy.Predicate {
	var list []string
	for _, p := range r.Paths {
		list = append(list, egresspolicy.PathRegex(p, r.Action == egresspolicy.Deny))
	}
	return envoy.InputMatches(path(), "("+strings.Join(list, "|")+")"+query)
}

// ports are expressions for what is asked for (wire.StateAt): a request to port 80 says none.
func ports(list []uint32) string {
	var out []string
	for _, p := range list {
		text := ":" + strconv.FormatUint(uint64(p), 10)
		if p == 80 {
			text = "(:80)?"
		}
		out = append(out, text)
	}
	return `(\[.*\]|[^:]*)(` + strings.Join(out, "|") + ")"
}

// protocols asks what is spoken: of connections that are asked about it is said, and what is left are requests.
func protocols(list []egresspolicy.Protocol) *envoy.Predicate {
	var out []*envoy.Predicate
	for _, p := range list {
		switch p {
		case egresspolicy.TLS:
			out = append(out, envoy.InputIs(spoken(), envoy.KindTLS))
		case egresspolicy.TCP:
			out = append(out, envoy.InputIs(spoken(), envoy.KindTCP))
		default:
			out = append(out, envoy.Not(envoy.InputMatches(spoken(), ".+")))
		}
	}
	return envoy.AnyOf(out...)
}

// What rules look at.

func host() *cncfcorev3.TypedExtensionConfig   { return envoy.StateInput(wire.StateHost) }
func spoken() *cncfcorev3.TypedExtensionConfig { return envoy.StateInput(wire.StateSpoken) }
func client() *cncfcorev3.TypedExtensionConfig { return envoy.StateInput(wire.StateClient) }
func from() *cncfcorev3.TypedExtensionConfig   { return envoy.StateInput(wire.StateFrom) }
func port() *cncfcorev3.TypedExtensionConfig   { return envoy.StateInput(wire.StateAt) }
func path() *cncfcorev3.TypedExtensionConfig   { return envoy.HeaderInput(":path") }
