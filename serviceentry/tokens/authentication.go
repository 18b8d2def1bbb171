package tokens

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	security "istio.io/api/security/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/selection"
)

// Authentication is one RequestAuthentication.
type Authentication struct {
	Key      config.Key
	Revision string
	selection.Workloads
	Rules []Rule
}

// Rule is what it asks of the tokens of one issuer.
type Rule struct {
	Name      string // "NAMESPACE/NAME/jwtRules[N]" of whoever wrote it
	Issuer    string
	Audiences []string // one of which a token is for; none: any
	Keys      string   // a set of keys (JWKS, RFC 7517 section 5)
	From      Source   // where they are fetched from, where the rule does not give them
	// Where a token may be. With none of them, in "Authorization: Bearer", or in the parameter access_token.
	Headers         []Header
	Params, Cookies []string
	// What the app is told of a token that is good.
	PayloadHeader string
	ClaimHeaders  []ClaimHeader
	Forward       bool // the token itself, too
	// SpaceDelimited are claims whose words are values of their own.
	SpaceDelimited []string
}

// Source is where keys are fetched from: their own URI, or that of the issuer, which says where they are. The zero value is nowhere.
type Source struct {
	URI      string
	Discover bool
	Timeout  time.Duration // 0: as usual
}

// MostSets is how many sets of keys are fetched for a namespace.
const MostSets = 100

// Key is the object that keys from there are, fetched for a namespace.
func (s Source) Key(ns string) config.Key {
	name := s.URI
	if s.Discover {
		name = "issuer " + name
	}
	return config.Key{Kind: config.KindKeySet, Namespace: ns, Name: name}
}

// Header is where a token may be, after a prefix.
type Header struct{ Name, Prefix string }

// ClaimHeader is a header that is made of a claim.
type ClaimHeader struct{ Header, Claim string }

// Set is all that are for a workload, in order.
type Set []*Authentication

// MostKeyBytes is how many bytes of keys the rules for one workload may have in all.
const MostKeyBytes = 4 << 20

// Rules are those of all, in the order in which they are asked: by issuer, as in Istio. Those whose keys are beyond MostKeyBytes have NoKeys.
func (s Set) Rules() []Rule {
	var out []Rule
	for _, a := range s {
		out = append(out, a.Rules...)
	}
	slices.SortStableFunc(out, func(a, b Rule) int { return strings.Compare(a.Issuer, b.Issuer) })
	all := 0
	for i := range out {
		if all += len(out[i].Keys); all > MostKeyBytes {
			out[i].Keys = NoKeys()
		}
	}
	return out
}

// Compare puts them in order: by namespace and name.
func (a *Authentication) Compare(o *Authentication) int {
	return cmp.Or(strings.Compare(a.Key.Namespace, o.Key.Namespace), strings.Compare(a.Key.Name, o.Key.Name))
}

// AlwaysDelimited are claims whose words are values of their own, whatever a rule says (RFC 8693 section 4.2).
var AlwaysDelimited = []string{"permission", "scope"}

// FromSpec makes one of an object that admission accepted. fetched gives the keys from somewhere; "" where there are none yet.
func FromSpec(o *config.Object, spec *security.RequestAuthentication, fetched func(Source) string) *Authentication {
	a := &Authentication{Key: o.Key, Revision: o.Revision, Workloads: selection.Of(o.Namespace, spec.Selector, spec.TargetRef, spec.TargetRefs)}
	for i, r := range spec.JwtRules {
		rule := Rule{
			Name: fmt.Sprintf("%s/%s/jwtRules[%d]", o.Namespace, o.Name, i), Issuer: r.Issuer, Audiences: r.Audiences, Keys: r.Jwks,
			Params: r.FromParams, Cookies: r.FromCookies, PayloadHeader: r.OutputPayloadToHeader, Forward: r.ForwardOriginalToken,
		}
		if r.Jwks == "" {
			rule.From = Source{cmp.Or(r.JwksUri, r.Issuer), r.JwksUri == "", r.Timeout.AsDuration()}
			rule.Keys = cmp.Or(fetched(rule.From), NoKeys())
		}
		for _, h := range r.FromHeaders {
			rule.Headers = append(rule.Headers, Header{h.Name, h.Prefix})
		}
		for _, c := range r.OutputClaimToHeaders {
			rule.ClaimHeaders = append(rule.ClaimHeaders, ClaimHeader{c.Header, c.Claim})
		}
		rule.SpaceDelimited = slices.Concat(AlwaysDelimited, r.SpaceDelimitedClaims)
		slices.Sort(rule.SpaceDelimited)
		rule.SpaceDelimited = slices.Compact(rule.SpaceDelimited)
		a.Rules = append(a.Rules, rule)
	}
	return a
}
