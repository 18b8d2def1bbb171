package route

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
)

// Find gives the destination that a backend is; one without a Host where requests for it fail.
type Find func(gatewayv1.BackendObjectReference) Destination

// ParseGatewayAPI reads a route of the Gateway API, for the listeners of gateways, or for a Service's port. Each match of a request is a route
// of its own: which of them comes first is said by Precedence, among those of all objects.
func ParseGatewayAPI(o *config.Object, where Where, find Find) Routes {
	p := gatewayParser{o, where, find}
	switch spec := o.Spec.(type) {
	case *gatewayv1.HTTPRouteSpec:
		return Routes{HTTP: p.http(spec)}
	case *gatewayv1.GRPCRouteSpec:
		return Routes{HTTP: p.http(asHTTP(spec))}
	case *gatewayv1.TLSRouteSpec:
		var out Routes
		m := L4Match{Where: p.where}
		for _, n := range spec.Hostnames {
			m.SNI = append(m.SNI, names([]string{string(n)})...)
		}
		for i := range spec.Rules {
			out.TLS = p.connections(out.TLS, i, m, spec.Rules[i].BackendRefs)
			out.TCP = p.connections(out.TCP, i, L4Match{Where: p.where}, spec.Rules[i].BackendRefs) // what is in TLS that ended
		}
		return out
	case *gatewayv1.TCPRouteSpec:
		var out Routes
		for i := range spec.Rules {
			out.TCP = p.connections(out.TCP, i, L4Match{Where: p.where}, spec.Rules[i].BackendRefs)
		}
		return out
	case *gatewayv1.UDPRouteSpec: // it counts at listeners of UDP only, where nothing of TCP does
		var out Routes
		for i := range spec.Rules {
			out.TCP = p.connections(out.TCP, i, L4Match{Where: p.where}, spec.Rules[i].BackendRefs)
		}
		return out
	}
	return Routes{}
}

type gatewayParser struct {
	o     *config.Object
	where Where
	find  Find
}

func (p gatewayParser) connections(list []L4, rule int, m L4Match, backends []gatewayv1.BackendRef) []L4 {
	t := L4{From: p.o.Key, Revision: p.o.Revision, Field: fmt.Sprintf("rules[%d]", rule), Matches: []L4Match{m}}
	for _, b := range backends {
		if w := weightOfBackend(b); w > 0 {
			t.Destinations = append(t.Destinations, L4Destination{p.find(b.BackendObjectReference), w})
		}
	}
	if len(t.Destinations) == 0 {
		return list
	}
	return append(list, t)
}

func weightOfBackend(b gatewayv1.BackendRef) uint32 {
	if b.Weight == nil {
		return 1
	}
	return uint32(max(*b.Weight, 0))
}

func (p gatewayParser) http(spec *gatewayv1.HTTPRouteSpec) (out []HTTP) {
	for i := range spec.Rules {
		rule := &spec.Rules[i]
		matches := rule.Matches
		if len(matches) == 0 {
			matches = []gatewayv1.HTTPRouteMatch{{}}
		}
		for j := range matches {
			m := p.match(&matches[j])
			if !m.works() {
				continue
			}
			h := p.rule(rule, &m)
			h.Field, h.Matches = fmt.Sprintf("rules[%d].matches[%d]", i, j), []HTTPMatch{m}
			out = append(append(out, p.keep(&h, rule, i, &m)...), h)
		}
	}
	return out
}

// rule reads what is done with requests of a match.
func (p gatewayParser) rule(rule *gatewayv1.HTTPRouteRule, m *HTTPMatch) HTTP {
	h := HTTP{From: p.o.Key, Revision: p.o.Revision, gateways: p.where.Gateways}
	if rule.Name != nil {
		h.Name = string(*rule.Name)
	}
	for i := range rule.Filters {
		p.filter(&h, &rule.Filters[i], m)
	}
	if h.Redirect != nil {
		return h
	}
	for _, b := range rule.BackendRefs {
		if w := weightOfBackend(b.BackendRef); w > 0 {
			h.Destinations = append(h.Destinations, HTTPDestination{Destination: p.find(b.BackendObjectReference), Weight: w, Headers: headerFilters(b.Filters)})
		}
	}
	if len(h.Destinations) == 0 {
		h.DirectResponse = &DirectResponse{Status: 500} // as the API says of a rule that leads nowhere
	}
	if t := rule.Retry; t != nil {
		h.Retries = retriesOfRule(t)
	}
	if t := rule.Timeouts; t != nil {
		request, backend := durationOf(t.Request), durationOf(t.BackendRequest)
		switch {
		case backend > 0 && h.Retries != nil && h.Retries.Attempts > 0:
			h.Timeout, h.Retries.PerTry = request, backend
		case backend > 0 && (request == 0 || backend < request):
			h.Timeout = backend
		default:
			h.Timeout = request
		}
	}
	return h
}

func durationOf(d *gatewayv1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	v, _ := time.ParseDuration(string(*d))
	return max(v, 0)
}

func retriesOfRule(r *gatewayv1.HTTPRouteRetry) *Retries {
	out := &Retries{Attempts: 1, On: []string{"connect-failure", "refused-stream", "reset"}, Backoff: durationOf(r.Backoff)}
	if r.Attempts != nil {
		out.Attempts = uint32(max(*r.Attempts, 0))
	}
	for _, c := range r.Codes {
		out.OnStatus = append(out.OnStatus, uint32(c))
	}
	return out
}

func (p gatewayParser) match(in *gatewayv1.HTTPRouteMatch) HTTPMatch {
	m := HTTPMatch{Where: p.where}
	if path := in.Path; path != nil && path.Value != nil {
		kind, value := gatewayv1.PathMatchPathPrefix, *path.Value
		if path.Type != nil {
			kind = *path.Type
		}
		text := Text{}
		switch kind {
		case gatewayv1.PathMatchExact:
			text = NewText(Exact, value)
		case gatewayv1.PathMatchRegularExpression:
			text = NewText(Regex, value)
		default:
			text = NewText(Elements, strings.TrimRight(value, "/"))
			if text.Value == "" {
				text = NewText(Prefix, "/")
			}
		}
		m.URI = &text
	}
	if in.Method != nil {
		text := NewText(Exact, string(*in.Method))
		m.Method = &text
	}
	for _, h := range in.Headers {
		name := strings.ToLower(string(h.Name))
		if slices.ContainsFunc(m.Headers, func(x HeaderMatch) bool { return x.Name == name }) {
			continue // as the API says: the first counts
		}
		kind := Exact
		if h.Type != nil && *h.Type == gatewayv1.HeaderMatchRegularExpression {
			kind = Regex
		}
		m.Headers = append(m.Headers, HeaderMatch{Name: name, Text: NewText(kind, h.Value)})
	}
	for _, q := range in.QueryParams {
		name := string(q.Name)
		if slices.ContainsFunc(m.Query, func(x QueryMatch) bool { return x.Name == name }) {
			continue
		}
		kind := Exact
		if q.Type != nil && *q.Type == gatewayv1.QueryParamMatchRegularExpression {
			kind = Regex
		}
		m.Query = append(m.Query, QueryMatch{name, NewText(kind, q.Value)})
	}
	return m
}

// Precedence says which of two routes of one match each is asked first, by what they match alone: negative for a. An exact path comes
// before an expression, and that before prefixes, the longest first; then a method, and whoever asks more of headers and parameters.
// https://gateway-api.sigs.k8s.io/reference/spec/#httprouterule
func Precedence(a, b *HTTP) int {
	rank := func(h *HTTP) [5]int {
		m := &h.Matches[0]
		r := [5]int{3: len(m.Headers), 4: len(m.Query)}
		if m.Carries != "" {
			r[3]--
		}
		if m.URI != nil {
			r[0] = map[TextKind]int{Exact: 3, Regex: 2, Prefix: 1, Elements: 1}[m.URI.Kind]
			if r[1] = len(m.URI.Value); m.URI.Kind == Exact {
				r[1] = 0
			}
		} else {
			r[0], r[1] = 1, 1 // all are below "/"
		}
		if m.Method != nil {
			r[2] = 1
		}
		return r
	}
	x, y := rank(a), rank(b)
	return slices.Compare(y[:], x[:])
}

// literal is a value that says itself, and is no format string.
func literal(s string) string { return strings.ReplaceAll(s, "%", "%%") }

func (p gatewayParser) filter(h *HTTP, f *gatewayv1.HTTPRouteFilter, m *HTTPMatch) {
	switch f.Type {
	case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
		h.Headers.Request = modified(f.RequestHeaderModifier, true)
	case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		h.Headers.Response = modified(f.ResponseHeaderModifier, false)
	case gatewayv1.HTTPRouteFilterRequestRedirect:
		h.Redirect = gatewayRedirect(f.RequestRedirect, m)
	case gatewayv1.HTTPRouteFilterURLRewrite:
		h.Rewrite = gatewayRewrite(f.URLRewrite, m)
	case gatewayv1.HTTPRouteFilterRequestMirror:
		if f.RequestMirror != nil {
			if to := p.find(f.RequestMirror.BackendRef); to.Host != "" {
				h.mirror(to, mirrorShare(f.RequestMirror))
			}
		}
	case gatewayv1.HTTPRouteFilterCORS:
		h.CORS = gatewayCORS(f.CORS)
	case gatewayv1.HTTPRouteFilterExternalAuth:
		h.Asks = p.asks(f.ExternalAuth)
	}
}

func mirrorShare(f *gatewayv1.HTTPRequestMirrorFilter) Share {
	switch {
	case f.Percent != nil:
		return percent(float64(*f.Percent))
	case f.Fraction != nil:
		of := int32(100)
		if f.Fraction.Denominator != nil {
			of = *f.Fraction.Denominator
		}
		if of <= 0 {
			return 0
		}
		return Share(math.Round(float64(All) * min(max(float64(f.Fraction.Numerator)/float64(of), 0), 1)))
	default:
		return All
	}
}

// headerFilters are those of a backend, which has no others.
func headerFilters(list []gatewayv1.HTTPRouteFilter) (out Headers) {
	for i := range list {
		switch f := &list[i]; f.Type {
		case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
			out.Request = modified(f.RequestHeaderModifier, true)
		case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
			out.Response = modified(f.ResponseHeaderModifier, false)
		}
	}
	return out
}

func modified(f *gatewayv1.HTTPHeaderFilter, request bool) (out HeaderOps) {
	if f == nil {
		return out
	}
	for _, list := range [...]struct {
		in []gatewayv1.HTTPHeader
		to *[]Header
	}{{f.Set, &out.Set}, {f.Add, &out.Add}} {
		for _, h := range list.in {
			switch name := strings.ToLower(string(h.Name)); {
			case request && name == "host":
				out.Authority = h.Value
			case may(name, request):
				*list.to = append(*list.to, Header{name, literal(h.Value)})
			}
		}
	}
	for _, name := range f.Remove {
		if name = strings.ToLower(name); may(name, request) {
			out.Remove = append(out.Remove, name)
		}
	}
	return out
}

// elements is the path that a match of path elements is for: "/" and "" are all.
func elements(m *HTTPMatch) string {
	if m.URI == nil || m.URI.Kind != Elements {
		return ""
	}
	return m.URI.Value
}

// replacePath is the expression that puts other elements in the place of those which matched, or of the whole path.
func replacePath(p *gatewayv1.HTTPPathModifier, m *HTTPMatch) *RegexRewrite {
	if p == nil {
		return nil
	}
	plain := func(s string) string { return strings.ReplaceAll(s, `\`, `\\`) }
	if p.Type == gatewayv1.FullPathHTTPPathModifier {
		if p.ReplaceFullPath == nil {
			return nil
		}
		return regexRewrite(`^/.*$`, plain("/"+strings.TrimLeft(*p.ReplaceFullPath, "/")))
	}
	if p.ReplacePrefixMatch == nil {
		return nil
	}
	with := strings.Trim(*p.ReplacePrefixMatch, "/")
	prefix := "^" + regexp.QuoteMeta(elements(m))
	if with == "" {
		return regexRewrite(prefix+"/*", "/")
	}
	if elements(m) == "" { // of "/" nothing is taken away
		return regexRewrite(`^/`, plain("/"+with+"/"))
	}
	return regexRewrite(prefix, plain("/"+with))
}

func gatewayRewrite(f *gatewayv1.HTTPURLRewriteFilter, m *HTTPMatch) *Rewrite {
	if f == nil {
		return nil
	}
	out := &Rewrite{Regex: replacePath(f.Path, m)}
	if f.Hostname != nil {
		out.Authority = string(*f.Hostname)
	}
	return out
}

func gatewayRedirect(f *gatewayv1.HTTPRequestRedirectFilter, m *HTTPMatch) *Redirect {
	if f == nil {
		return nil
	}
	out := &Redirect{Code: 302, Regex: replacePath(f.Path, m)}
	if f.StatusCode != nil {
		out.Code = uint32(*f.StatusCode)
	}
	if f.Hostname != nil {
		out.Authority = string(*f.Hostname)
	}
	if f.Scheme != nil {
		out.Scheme = *f.Scheme
	}
	switch {
	case f.Port != nil:
		out.Port = uint32(*f.Port)
	case out.Scheme == "http":
		out.Port = 80
	case out.Scheme == "https":
		out.Port = 443
	default:
		out.FromRequest = true
	}
	return out
}

func gatewayCORS(f *gatewayv1.HTTPCORSFilter) *CORS {
	if f == nil {
		return nil
	}
	out := &CORS{MaxAge: time.Duration(f.MaxAge) * time.Second, Credentials: f.AllowCredentials}
	if out.MaxAge == 0 {
		out.MaxAge = 5 * time.Second // the API's own
	}
	for _, o := range f.AllowOrigins {
		text := NewText(Exact, string(o))
		if strings.Contains(string(o), "*") {
			text = NewText(Regex, strings.ReplaceAll(regexp.QuoteMeta(string(o)), `\*`, ".*"))
		}
		if text.works() {
			out.Origins = append(out.Origins, text)
		}
	}
	for _, m := range f.AllowMethods {
		out.Methods = append(out.Methods, string(m))
	}
	for _, h := range f.AllowHeaders {
		out.Allow = append(out.Allow, string(h))
	}
	for _, h := range f.ExposeHeaders {
		out.Expose = append(out.Expose, string(h))
	}
	return out
}
