package httproute

import (
	"cmp"
	"slices"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/wire"
)

// End is what a destination of a user's route comes to at a proxy.
type End struct {
	Cluster string
	// Authority takes the place of the request's Host; "" leaves it, or what the route makes of it. Where a gateway is passed it
	// says which host is meant, and no route says otherwise.
	Authority string
	Otherwise string                      // takes its place where no route says anything
	Headers   []*corev3.HeaderValueOption // of ours
	Filters   map[string]*anypb.Any       // what the way needs, by filter
	Traffic   registry.TrafficPolicy
	Secure    bool // clients come by TLS, and a session's cookie is for that alone
}

// Render renders one match of a user's route at a port. ends are those of its destinations, and of its mirrors, in order.
func Render(h *route.HTTP, m *route.HTTPMatch, port uint32, ends, mirrors []End) *routev3.Route {
	r := &routev3.Route{Name: nameOfRoute(h, m), Match: Match(m), StatPrefix: m.StatPrefix, Metadata: envoy.DecidedByMetadata(envoy.ObjectRef(h.From))}
	switch {
	case h.Redirect != nil:
		r.Action = &routev3.Route_Redirect{Redirect: redirect(h.Redirect, port)}
	case h.DirectResponse != nil:
		r.Action = &routev3.Route_DirectResponse{DirectResponse: directResponse(h.DirectResponse)}
	default:
		r.Action = &routev3.Route_Route{Route: forward(r, h, ends, mirrors)}
	}
	ops := h.Headers
	if len(ends) == 1 { // an only destination's come last, and win
		ops = join(h.Headers, h.Destinations[0].Headers)
	}
	r.RequestHeadersToAdd = append(append(r.RequestHeadersToAdd, added(ops.Request)...), ours(ends)...)
	r.RequestHeadersToRemove = ops.Request.Remove
	r.ResponseHeadersToAdd, r.ResponseHeadersToRemove = added(ops.Response), ops.Response.Remove
	faults(r, h)
	cors(r, h.CORS)
	if r.Validate() != nil {
		return unfit(h)
	}
	return r
}

// unfit closes what Envoy would refuse, with all that comes with it. Admission says it to who wrote it.
func unfit(h *route.HTTP) *routev3.Route {
	return farend.ClosedRequests(registry.ClosedPort{By: h.From, Revision: h.Revision, Why: h.Field + " holds a value that no proxy takes", Fix: "mend it as lint says"})
}

// ours are the headers that tell the proxies behind something, where there is one destination.
func ours(ends []End) []*corev3.HeaderValueOption {
	if len(ends) != 1 {
		return nil
	}
	return ends[0].Headers
}

func join(a, b route.Headers) route.Headers {
	ops := func(a, b route.HeaderOps) route.HeaderOps {
		out := route.HeaderOps{Set: slices.Concat(a.Set, b.Set), Add: slices.Concat(a.Add, b.Add), Remove: slices.Concat(a.Remove, b.Remove), Authority: a.Authority}
		if b.Authority != "" {
			out.Authority = b.Authority
		}
		return out
	}
	return route.Headers{Request: ops(a.Request, b.Request), Response: ops(a.Response, b.Response)}
}

// nameOfRoute is the name in the log: the route's, with its match's.
func nameOfRoute(h *route.HTTP, m *route.HTTPMatch) string {
	name := h.Name + m.Name
	if h.Name != "" && m.Name != "" {
		name = h.Name + "." + m.Name
	}
	switch {
	case name == "":
		return "default"
	case wire.IsReservedRoute(name): // it would say something in the log that is not so
		return "route." + name
	default:
		return name
	}
}

// Match renders what a match asks of requests; where it counts has been asked before.
func Match(m *route.HTTPMatch) *routev3.RouteMatch {
	out := envoy.MatchAnyRequest()
	if m.URI != nil {
		switch m.URI.Kind {
		case route.Exact:
			out.PathSpecifier = &routev3.RouteMatch_Path{Path: m.URI.Value}
		case route.Prefix:
			out.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: m.URI.Value}
		case route.Elements:
			out.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: m.URI.Value}
		case route.Regex:
			out.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: m.URI.Value}}
		}
		if m.IgnoreURICase && m.URI.Kind != route.Regex {
			out.CaseSensitive = wrapperspb.Bool(false)
		}
	}
	for _, x := range [...]struct {
		name string
		text *route.Text
	}{{":scheme", m.Scheme}, {":method", m.Method}, {":authority", m.Authority}} {
		if x.text != nil {
			out.Headers = append(out.Headers, headerMatch(route.HeaderMatch{Name: x.name, Text: *x.text}))
		}
	}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, headerMatch(h))
	}
	for _, c := range m.Claims {
		out.DynamicMetadata = append(out.DynamicMetadata, envoy.MatchClaim(c.Path, textMatch(c.Text), c.Without))
	}
	for _, q := range m.Query {
		p := &routev3.QueryParameterMatcher{Name: q.Name, QueryParameterMatchSpecifier: &routev3.QueryParameterMatcher_PresentMatch{PresentMatch: true}}
		if q.Text.Kind != route.Present {
			p.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_StringMatch{StringMatch: textMatch(q.Text)}
		}
		out.QueryParameters = append(out.QueryParameters, p)
	}
	return out
}

func headerMatch(h route.HeaderMatch) *routev3.HeaderMatcher {
	out := &routev3.HeaderMatcher{Name: h.Name, InvertMatch: h.Without}
	if h.Text.Kind == route.Present {
		out.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}
		return out
	}
	out.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: textMatch(h.Text)}
	out.TreatMissingHeaderAsEmpty = h.Without // else a header that is not there is no match either way
	return out
}

func textMatch(t route.Text) *matcherv3.StringMatcher {
	switch t.Kind {
	case route.Present: // of a text; proxies take no empty prefix
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: "(?s).*"}}}
	case route.Prefix:
		return envoy.Prefix(t.Value)
	case route.Regex:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: t.Value}}}
	default:
		return envoy.Exact(t.Value)
	}
}

func redirect(d *route.Redirect, port uint32) *routev3.RedirectAction {
	out := &routev3.RedirectAction{HostRedirect: d.Authority, PortRedirect: d.Port, ResponseCode: map[uint32]routev3.RedirectAction_RedirectResponseCode{
		302: routev3.RedirectAction_FOUND, 303: routev3.RedirectAction_SEE_OTHER, 307: routev3.RedirectAction_TEMPORARY_REDIRECT, 308: routev3.RedirectAction_PERMANENT_REDIRECT,
	}[d.Code]}
	if d.FromRequest {
		out.PortRedirect = port
	}
	if out.PortRedirect == 443 && d.FromRequest && d.Scheme == "" {
		out.PortRedirect = 0 // TLS came to it
	}
	if (out.PortRedirect == 80 && d.Scheme != "https") || (out.PortRedirect == 443 && d.Scheme == "https") {
		out.PortRedirect = 0 // the scheme's own needs no mention
	}
	if d.Scheme != "" {
		out.SchemeRewriteSpecifier = &routev3.RedirectAction_SchemeRedirect{SchemeRedirect: d.Scheme}
	}
	switch {
	case d.URI != "":
		out.PathRewriteSpecifier = &routev3.RedirectAction_PathRedirect{PathRedirect: d.URI}
	case d.Regex != nil:
		out.PathRewriteSpecifier = &routev3.RedirectAction_RegexRewrite{RegexRewrite: substitute(d.Regex)}
	case d.PrefixRewrite != "":
		out.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: d.PrefixRewrite}
	}
	return out
}

func substitute(w *route.RegexRewrite) *matcherv3.RegexMatchAndSubstitute {
	return &matcherv3.RegexMatchAndSubstitute{Pattern: &matcherv3.RegexMatcher{Regex: w.Match}, Substitution: w.Rewrite}
}

func directResponse(d *route.DirectResponse) *routev3.DirectResponseAction {
	out := &routev3.DirectResponseAction{Status: d.Status}
	if len(d.Body) > 0 {
		out.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: d.Body}}
	}
	return out
}

// forward leads requests to the route's destinations. What the way of an only one needs is noted in the route.
func forward(r *routev3.Route, h *route.HTTP, ends, mirrors []End) *routev3.RouteAction {
	a := envoy.ToClusterRetried("")
	if h.Timeout > 0 {
		a.Timeout = durationpb.New(h.Timeout)
	}
	if h.Retries != nil {
		a.RetryPolicy = retries(h.Retries)
	}
	if w := h.Rewrite; w != nil {
		a.PrefixRewrite = w.URI
		if w.Regex != nil {
			a.RegexRewrite = substitute(w.Regex)
		}
	}
	for i, m := range mirrors {
		a.RequestMirrorPolicies = append(a.RequestMirrorPolicies, mirror(m, h.Mirrors[i].Share))
	}
	if len(ends) == 1 {
		e := ends[0]
		a.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: e.Cluster}
		if authority := authorityFor(h, 0, e); authority != "" {
			a.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: authority}
		}
		envoy.WithFilterConfigs(r, withSession(e, h.Destinations[0].Session))
		return farend.WithHashPolicy(a, e.Traffic)
	}
	weighted, traffic := &routev3.WeightedCluster{}, make([]registry.TrafficPolicy, len(ends))
	for i, e := range ends {
		weighted.Clusters, traffic[i] = append(weighted.Clusters, share(h, i, e)), e.Traffic
	}
	a.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: weighted}
	return farend.WithHashPolicy(a, traffic...)
}

// share is one of several destinations.
func share(h *route.HTTP, i int, e End) *routev3.WeightedCluster_ClusterWeight {
	ops := h.Destinations[i].Headers
	w := &routev3.WeightedCluster_ClusterWeight{
		Name: e.Cluster, Weight: wrapperspb.UInt32(h.Destinations[i].Weight), TypedPerFilterConfig: withSession(e, h.Destinations[i].Session),
		RequestHeadersToAdd: append(added(ops.Request), e.Headers...), RequestHeadersToRemove: ops.Request.Remove,
		ResponseHeadersToAdd: added(ops.Response), ResponseHeadersToRemove: ops.Response.Remove,
	}
	if authority := authorityFor(h, i, e); authority != "" {
		w.HostRewriteSpecifier = &routev3.WeightedCluster_ClusterWeight_HostRewriteLiteral{HostRewriteLiteral: authority}
	}
	return w
}

// authorityFor is the Host with which requests go to a destination; "" leaves it.
func authorityFor(h *route.HTTP, i int, e End) string {
	return cmp.Or(e.Authority, h.AuthorityTo(i), e.Otherwise)
}

func mirror(e End, share route.Share) *routev3.RouteAction_RequestMirrorPolicy {
	out := &routev3.RouteAction_RequestMirrorPolicy{
		Cluster: e.Cluster, RuntimeFraction: fraction(share), TraceSampled: wrapperspb.Bool(false), HostRewriteLiteral: e.Authority,
	}
	// a copy has the headers that the request was sent with, and so what it told a gateway
	out.RequestHeadersMutations = []*mutationv3.HeaderMutation{{Action: &mutationv3.HeaderMutation_Remove{Remove: wire.HeaderRegisteredIn}}}
	for _, own := range e.Headers {
		out.RequestHeadersMutations = append(out.RequestHeadersMutations, &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Append{Append: own}})
	}
	return out
}

func fraction(share route.Share) *corev3.RuntimeFractionalPercent {
	return &corev3.RuntimeFractionalPercent{DefaultValue: perMillion(share)}
}

func perMillion(share route.Share) *typev3.FractionalPercent {
	return &typev3.FractionalPercent{Numerator: uint32(share), Denominator: typev3.FractionalPercent_MILLION}
}

// retries renders a retry policy; nil for no retries.
func retries(t *route.Retries) *routev3.RetryPolicy {
	if t.Attempts == 0 {
		return nil
	}
	out := envoy.Retry(t.Attempts, conditions(t))
	out.RetriableStatusCodes = t.OnStatus
	if t.PerTry > 0 {
		out.PerTryTimeout = durationpb.New(t.PerTry)
	}
	if t.Backoff > 0 {
		out.RetryBackOff = &routev3.RetryPolicy_RetryBackOff{BaseInterval: durationpb.New(t.Backoff)}
	}
	if t.PreviousHosts {
		out.RetryHostPredicate = nil
	}
	if t.RemoteLocality {
		out.RetryPriority = &routev3.RetryPolicy_RetryPriority{
			Name:       "envoy.retry_priorities.previous_priorities",
			ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{TypedConfig: envoy.ToAny(previousPriorities())},
		}
	}
	return out
}

// added are the headers that are set or added.
func added(o route.HeaderOps) (out []*corev3.HeaderValueOption) {
	for _, list := range [...]struct {
		of     []route.Header
		action corev3.HeaderValueOption_HeaderAppendAction
	}{{o.Set, corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD}, {o.Add, corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD}} {
		for _, h := range list.of {
			out = append(out, &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: h.Name, Value: h.Value}, AppendAction: list.action, KeepEmptyValue: true})
		}
	}
	return out
}
