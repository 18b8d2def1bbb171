package interpret

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// table is a route configuration with its virtual hosts, by their domains.
type table struct {
	config   *routev3.RouteConfiguration
	exact    map[string]*routev3.VirtualHost
	suffixes map[string]*routev3.VirtualHost // "*.example.com" by ".example.com"
	prefixes map[string]*routev3.VirtualHost // "www.*" by "www."
	any      *routev3.VirtualHost
}

func (t *table) add(hosts []*routev3.VirtualHost) {
	if t.exact == nil {
		t.exact, t.suffixes, t.prefixes = map[string]*routev3.VirtualHost{}, map[string]*routev3.VirtualHost{}, map[string]*routev3.VirtualHost{}
	}
	put := func(in map[string]*routev3.VirtualHost, domain string, vh *routev3.VirtualHost) {
		if other := in[domain]; other != nil {
			unknown("table %s: the virtual hosts %q and %q have the domain %q: Envoy refuses the table", t.config.Name, other.Name, vh.Name, domain)
		}
		in[domain] = vh
	}
	for _, vh := range hosts {
		for _, d := range vh.Domains {
			d = strings.ToLower(d)
			switch {
			case d == "*":
				if t.any != nil {
					unknown("table %s: two virtual hosts have the domain *", t.config.Name)
				}
				t.any = vh
			case d[0] == '*':
				put(t.suffixes, d[1:], vh)
			case d[len(d)-1] == '*':
				put(t.prefixes, d[:len(d)-1], vh)
			default:
				put(t.exact, d, vh)
			}
		}
	}
}

// host finds the virtual host of an authority: the exact domain, the longest suffix, the longest prefix, "*".
func (t *table) host(authority string) *routev3.VirtualHost {
	if t.config.IgnorePortInHostMatching {
		authority = hostOnly(authority)
	}
	host := strings.ToLower(authority)
	if vh := t.exact[host]; vh != nil {
		return vh
	}
	for i := 1; i < len(host); i++ {
		if vh := t.suffixes[host[i:]]; vh != nil {
			return vh
		}
	}
	for i := len(host) - 1; i > 0; i-- {
		if vh := t.prefixes[host[:i]]; vh != nil {
			return vh
		}
	}
	return t.any
}

// findRoute finds the request's route, anew where it had one.
func (r *stream) findRoute() {
	if s := r.hcm.GetScopedRoutes(); s != nil {
		r.table = r.scoped(s)
	}
	named := r.request.Authority
	if h := r.table.config.VhostHeader; h != "" {
		named, _ = r.request.header(h)
	}
	r.vhost, r.route, r.cluster, r.share = r.table.host(named), nil, nil, nil
	if r.vhost == nil {
		r.step("no virtual host of table %s for %s", r.table.config.Name, r.request.Authority)
		return
	}
	if r.vhost.RequireTls == routev3.VirtualHost_ALL && !r.shaken {
		return // it has the route that redirects, of which no filter reads anything
	}
	for _, route := range r.vhost.Routes {
		if r.matches(route.Match) {
			r.route = route
			if w := route.GetRoute().GetWeightedClusters(); w != nil {
				r.share = r.weighted(w)
			}
			if a := route.GetRoute(); a != nil {
				r.cluster = r.proxy.clusters[r.target(a)] // known from here on, whatever becomes of the request
			}
			r.step("table %s, virtual host %s, route %s", r.table.config.Name, r.vhost.Name, route.Name)
			return
		}
	}
	r.step("table %s, virtual host %s: no route", r.table.config.Name, r.vhost.Name)
}

func (r *stream) matches(m *routev3.RouteMatch) bool {
	if !r.pathMatches(m) || !r.fraction(m.RuntimeFraction.GetDefaultValue(), m.RuntimeFraction != nil) {
		return false
	}
	if m.Grpc != nil && !strings.HasPrefix(r.request.Headers["content-type"], "application/grpc") {
		return false
	}
	for _, h := range m.Headers {
		if !matchHeader(h, r.request) {
			return false
		}
	}
	for _, q := range m.QueryParameters {
		if !matchQuery(q, r.request.Path) {
			return false
		}
	}
	for _, f := range m.FilterState {
		if !r.stateMatches(f) {
			return false
		}
	}
	return true
}

func (r *stream) pathMatches(m *routev3.RouteMatch) bool {
	connect := r.request.Method == "CONNECT"
	if _, ok := m.PathSpecifier.(*routev3.RouteMatch_ConnectMatcher_); ok || connect {
		return ok && connect // others want a path, which CONNECT does not have
	}
	path, _, _ := strings.Cut(r.request.Path, "?")
	path, _, _ = strings.Cut(path, "#")
	fold := func(s string) string {
		if m.CaseSensitive != nil && !m.CaseSensitive.Value {
			return strings.ToLower(s)
		}
		return s
	}
	switch p := m.PathSpecifier.(type) {
	case *routev3.RouteMatch_Prefix:
		return strings.HasPrefix(fold(path), fold(p.Prefix))
	case *routev3.RouteMatch_Path:
		return fold(path) == fold(p.Path)
	case *routev3.RouteMatch_PathSeparatedPrefix:
		rest, ok := strings.CutPrefix(fold(path), fold(p.PathSeparatedPrefix))
		return ok && (rest == "" || rest[0] == '/')
	case *routev3.RouteMatch_SafeRegex:
		return matchRegex(p.SafeRegex.Regex, path)
	default:
		unknown("route: path %T", p)
		return false
	}
}

// fraction says whether chance is within a fraction.
func (r *stream) fraction(f *typev3.FractionalPercent, there bool) bool {
	if !there {
		return true
	}
	of := map[typev3.FractionalPercent_DenominatorType]uint64{
		typev3.FractionalPercent_HUNDRED: 100, typev3.FractionalPercent_TEN_THOUSAND: 10_000, typev3.FractionalPercent_MILLION: 1_000_000,
	}[f.GetDenominator()]
	return r.chance%of < uint64(f.GetNumerator())
}

// matchHeader holds a request's header against a matcher. One that is not there matches nothing, inverted or not, but for whether
// it is there.
func matchHeader(m *routev3.HeaderMatcher, r *Request) bool {
	value, there := r.header(m.Name)
	if p, ok := m.HeaderMatchSpecifier.(*routev3.HeaderMatcher_PresentMatch); ok {
		return (there == p.PresentMatch) != m.InvertMatch
	}
	if !there && !m.TreatMissingHeaderAsEmpty {
		return false
	}
	switch p := m.HeaderMatchSpecifier.(type) {
	case nil:
		return there != m.InvertMatch
	case *routev3.HeaderMatcher_StringMatch:
		return matchString(p.StringMatch, value) != m.InvertMatch
	case *routev3.HeaderMatcher_RangeMatch:
		n, err := strconv.ParseInt(value, 10, 64)
		return (err == nil && p.RangeMatch.Start <= n && n < p.RangeMatch.End) != m.InvertMatch
	default:
		unknown("header %s: matched by %T", m.Name, p)
		return false
	}
}

// matchQuery holds the first parameter of a name against a matcher.
func matchQuery(m *routev3.QueryParameterMatcher, path string) bool {
	_, query, _ := strings.Cut(path, "?")
	query, _, _ = strings.Cut(query, "#")
	value, there := "", false
	for part := range strings.SplitSeq(query, "&") {
		if k, v, _ := strings.Cut(part, "="); k == m.Name && part != "" {
			value, there = v, true
			break
		}
	}
	if decoded, err := url.PathUnescape(value); err == nil {
		value = decoded
	}
	switch p := m.QueryParameterMatchSpecifier.(type) {
	case nil:
		return there
	case *routev3.QueryParameterMatcher_PresentMatch:
		return there == p.PresentMatch
	case *routev3.QueryParameterMatcher_StringMatch:
		return there && matchString(p.StringMatch, value)
	default:
		unknown("query parameter %s: matched by %T", m.Name, p)
		return false
	}
}

func (r *stream) stateMatches(m *matcherv3.FilterStateMatcher) bool {
	v, ok := r.state[m.Key]
	if !ok {
		return false
	}
	switch p := m.Matcher.(type) {
	case *matcherv3.FilterStateMatcher_StringMatch:
		return matchString(p.StringMatch, v.text)
	case *matcherv3.FilterStateMatcher_AddressMatch:
		at, err := netip.ParseAddrPort(v.text)
		if err != nil {
			return false
		}
		in := false
		for _, c := range p.AddressMatch.Ranges {
			a, err := netip.ParseAddr(c.AddressPrefix)
			if err != nil {
				unknown("filter state %s: the range %q", m.Key, c.AddressPrefix)
			}
			in = in || netip.PrefixFrom(a, int(c.PrefixLen.GetValue())).Contains(at.Addr())
		}
		return in != p.AddressMatch.InvertMatch
	default:
		unknown("filter state %s: matched by %T", m.Key, p)
		return false
	}
}
