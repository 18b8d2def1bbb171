package wire

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Rule is a rule of a policy that decided, as proxies name it in their metadata and answers. As text its parts are
// joined by "|", and hold no white space, which Envoy replaces in some places.
type Rule struct {
	Verdict  string // one of those below
	Policy   string // "namespace/name" of an EgressPolicy; else with the kind before, "AuthorizationPolicy/namespace/name"
	Rule     string
	Revision string
	Reason   string
	Owner    string
	Until    string // when it ends, in RFC 3339 and UTC, of one that allows; "" for never
}

// The verdicts.
const (
	RuleDenies = "deny"
	RuleAllows = "allow"
	RuleFinal  = "final" // allows, whatever the workload's own namespace says
	RuleAsks   = "ask"   // an authorizer, which is Reason, and which alone says whether it may pass
)

// The kinds that Rule.Policy begins with; without one it is an EgressPolicy's.
const (
	EgressPolicy        = "EgressPolicy"
	AuthorizationPolicy = "AuthorizationPolicy"
	MeshConfig          = "MeshConfig" // closes what nobody registered
)

// Object takes Policy apart.
func (r Rule) Object() (kind, namespace, name string) {
	kind, object := EgressPolicy, r.Policy
	if strings.Count(object, "/") == 2 {
		kind, object, _ = strings.Cut(object, "/")
	}
	namespace, name, _ = strings.Cut(object, "/")
	return kind, namespace, name
}

// NoRule is what a level says that says nothing.
const NoRule = "-"

// escape writes what is not a visible letter of ASCII, or has a meaning in rules and in Envoy's details, by its bytes.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || strings.IndexByte("%|[]", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// String writes it.
func (r Rule) String() string {
	parts := []string{r.Verdict, r.Policy, r.Rule, r.Revision, r.Reason, r.Owner}
	if r.Until != "" {
		parts = append(parts, r.Until)
	}
	for i := range parts {
		parts[i] = escape(parts[i])
	}
	return strings.Join(parts, "|")
}

// AskingRule is an expression (RE2) for all rules, as text, by which a provider is asked.
func AskingRule(provider string) string {
	return RuleAsks + `\|[^|]*\|[^|]*\|[^|]*\|` + regexp.QuoteMeta(escape(provider)) + `\|.*`
}

// ParseRule reads it, also where its end was cut off; false for what is none, as NoRule.
func ParseRule(text string) (Rule, bool) {
	parts := strings.Split(text, "|")
	if len(parts) < 3 {
		return Rule{}, false
	}
	var out [7]string
	for i := range min(len(parts), len(out)) {
		out[i] = parts[i]
		if plain, err := url.PathUnescape(parts[i]); err == nil {
			out[i] = plain
		}
	}
	return Rule{out[0], out[1], out[2], out[3], out[4], out[5], out[6]}, true
}

// Ruled is what the levels' policies said, and the gateway's AuthorizationPolicies: what was kept, and what would have been kept if
// those that are observed were enforced.
type Ruled struct {
	Root, Own, RootObserved, OwnObserved, Authz, AuthzObserved string
	Asked                                                      string // which rule had an authorizer asked, of requests, and of connections that come in
}

// ParseRuled reads what an answer says of it: the six, with a space between.
func ParseRuled(text string) (r Ruled) {
	parts := strings.SplitN(text, " ", 7)
	for i, to := range []*string{&r.Root, &r.Own, &r.RootObserved, &r.OwnObserved, &r.Authz, &r.AuthzObserved} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	return r
}

// The prefixes of the keys under which proxies tell of rules: of the root namespace's EgressPolicies, of those of the workload's own,
// of AuthorizationPolicies, and of those of them that have an authorizer asked.
const (
	StatRoot  = "root_"
	StatOwn   = "own_"
	StatAuthz = "authz_"
	StatAsked = "asked_"
)

// Where proxies tell of rules. Of requests, the metadata of the filter of access has them, under the levels' prefixes; of connections
// that were asked about, the answer has them among its values.
const (
	RuleFilter    = "envoy.filters.http.rbac"
	RuleFilterTCP = "envoy.filters.network.rbac" // of connections that are asked about directly

	TokenFilter = "envoy.filters.http.jwt_authn" // by this it tells what good tokens say

	EnforcedRule   = "enforced_effective_policy_id"
	ShadowRule     = "shadow_effective_policy_id"
	EnforcedResult = "enforced_engine_result" // "denied" or "allowed"
	ShadowResult   = "shadow_engine_result"

	AnswerFilter = "envoy.filters.network.ratelimit"
	AnswerDenied = "denied" // the rule that denied it
	AnswerRules  = "rules"  // what ParseRuled reads, of one that was not denied; spaces follow
)

// HeaderDenied tells a client which rule denied its request, and why.
const HeaderDenied = "sallyport-denied"
