package admission

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/serviceentry/route"
)

func (r *report) httpMatch(field string, m *networking.HTTPMatchRequest, atGateways bool) {
	r.unmatchable(field, m)
	r.stringMatch(at(field, "uri"), m.Uri, true)
	single := map[string]*networking.StringMatch{"scheme": m.Scheme, "method": m.Method, "authority": m.Authority}
	for _, name := range sortedKeys(single) {
		r.stringMatch(at(field, name), single[name], false)
	}
	for _, name := range sortedKeys(m.Headers) {
		where := strict.Join(at(field, "headers"), name)
		r.matchedHeader(where, name, atGateways)
		if m.Headers[name] == nil {
			r.reject(where, nil, "the match is empty", `write {exact: VALUE}, or {} for "is there"`)
		}
		r.stringMatch(where, m.Headers[name], false)
	}
	for _, name := range sortedKeys(m.WithoutHeaders) {
		where := strict.Join(at(field, "withoutHeaders"), name)
		r.matchedHeader(where, name, atGateways)
		if m.WithoutHeaders[name].GetRegex() != "*" { // it stands for any value
			r.stringMatch(where, m.WithoutHeaders[name], false)
		}
	}
	for _, name := range sortedKeys(m.QueryParams) {
		r.stringMatch(strict.Join(at(field, "queryParams"), name), m.QueryParams[name], false)
	}
	r.matchPlace(field, m.Port, m.Gateways, m.SourceLabels)
	if m.SourceNamespace != "" {
		r.namespace(at(field, "sourceNamespace"), m.SourceNamespace)
	}
}

// unmatchable warns of what no request has.
func (r *report) unmatchable(field string, m *networking.HTTPMatchRequest) {
	const none = ", so no request is meant by the match"
	for _, x := range []struct{ name, path string }{{"exact", m.Uri.GetExact()}, {"prefix", m.Uri.GetPrefix()}} {
		switch where := at(field, "uri", x.name); {
		case x.path == "" || x.path == "*": // which OPTIONS asks for
		case strings.ContainsAny(x.path, "?#"):
			r.warn(where, x.path, "paths are compared without what follows a ? or a #"+none, "write the path alone, and what is asked of the query into queryParams")
		case x.path[0] != '/':
			r.warn(where, x.path, "paths begin with a /"+none, fmt.Sprintf("write %q", "/"+x.path))
		}
	}
	for _, x := range []struct {
		name, text, meant string
	}{
		{"scheme.exact", m.Scheme.GetExact(), strings.ToLower(m.Scheme.GetExact())}, {"scheme.prefix", m.Scheme.GetPrefix(), strings.ToLower(m.Scheme.GetPrefix())},
		{"method.exact", m.Method.GetExact(), upperMethod(m.Method.GetExact())},
	} {
		if x.text != x.meant {
			r.warn(at(field, x.name), x.text, fmt.Sprintf("proxies compare letter by letter, and what is meant is called %s", x.meant)+none, fmt.Sprintf("write %q", x.meant))
		}
	}
	for _, name := range sortedKeys(m.WithoutHeaders) {
		for _, other := range sortedKeys(m.Headers) {
			if strings.EqualFold(name, other) && !strings.HasPrefix(name, "@") && absent(m.WithoutHeaders[name]) {
				r.warn(strict.Join(at(field, "withoutHeaders"), name), nil, "headers asks for it"+none, "remove one of the two")
			}
		}
	}
}

// upperMethod is a method of HTTP's as clients send it; others are left as they are.
func upperMethod(name string) string {
	if upper := strings.ToUpper(name); slices.Contains(methods, upper) {
		return upper
	}
	return name
}

// absent says whether a header that is matched so must not be there at all.
func absent(m *networking.StringMatch) bool {
	prefix, isPrefix := m.GetMatchType().(*networking.StringMatch_Prefix)
	return m.GetMatchType() == nil || m.GetRegex() == "*" || isPrefix && prefix.Prefix == ""
}

var (
	headerForm = regexp.MustCompile(`^[-_A-Za-z0-9]+$`)
)

// matchedHeader checks a header's name, which for requests to gateways may also be a claim of a token.
func (r *report) matchedHeader(field, name string, atGateways bool) {
	_, claim := route.ClaimPath(name)
	switch {
	case claim && !atGateways:
		r.reject(field, name, "claims are matched at ingress gateways only", "name a gateway in spec.gateways, without mesh")
	case claim:
	case strings.HasPrefix(name, "@"):
		r.reject(field, name, "is no claim of a token", "write @request.auth.claims.NAME, or @request.auth.claims[NAME][WITHIN]")
	case !headerForm.MatchString(name):
		r.reject(field, name, "is no header's name", "write it in lower case with hyphens")
	}
}

// stringMatch checks prefixes, which may be empty for paths only, and regular expressions.
func (r *report) stringMatch(field string, m *networking.StringMatch, path bool) {
	switch x := m.GetMatchType().(type) {
	case *networking.StringMatch_Prefix:
		if x.Prefix == "" && !path {
			r.reject(at(field, "prefix"), nil, "the prefix is empty", "write one, or leave the match out")
		}
	case *networking.StringMatch_Regex:
		r.regex(at(field, "regex"), x.Regex)
	}
}

// maxRegex bounds a regular expression, in bytes: Envoy limits the size of what is made of it.
const maxRegex = 1024

// regex rejects what RE2, which is Envoy's and Go's, does not compile.
func (r *report) regex(field, value string) {
	if value == "" {
		r.reject(field, nil, "the regular expression is empty", "write one, or use prefix")
	} else if len(value) > maxRegex {
		r.reject(field, value, fmt.Sprintf("the regular expression has %d characters, at most %d are allowed", len(value), maxRegex), "shorten it, or write several matches")
	} else if err := route.CheckRegex(value); err != nil {
		r.reject(field, value, err.Error(), "mend the regular expression (RE2 syntax)")
	}
}
