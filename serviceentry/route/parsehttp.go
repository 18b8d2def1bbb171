package route

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
)

func (p parser) http(h *networking.HTTPRoute) HTTP {
	out := HTTP{
		Name: h.Name, From: p.o.Key, Revision: p.o.Revision,
		Redirect: redirectOf(h.Redirect), DirectResponse: directResponseOf(h.DirectResponse), Rewrite: rewriteOf(h.Rewrite),
		Timeout: duration(h.Timeout), Retries: retriesOf(h.Retries), CORS: corsOf(h.CorsPolicy), Headers: headersOf(h.Headers),
		Delay: delayOf(h.Fault.GetDelay()), Abort: abortOf(h.Fault.GetAbort()),
		fault: h.Fault != nil, headers: h.Headers != nil, mirrors: h.Mirror != nil || len(h.Mirrors) > 0, gateways: p.gateways,
	}
	for _, m := range h.Match {
		if one := p.httpMatch(m); one.works() {
			out.Matches = append(out.Matches, one)
		}
	}
	if len(h.Match) == 0 && h.Delegate == nil {
		out.Matches = []HTTPMatch{{Where: p.where(0, nil, nil, "")}}
	}
	for _, d := range h.Route {
		if weight, ok := weightOf(d.GetWeight(), len(h.Route)); ok && d.GetDestination() != nil {
			out.Destinations = append(out.Destinations, HTTPDestination{Destination: p.destination(d.Destination), Weight: weight, Headers: headersOf(d.Headers)})
		}
	}
	if h.Mirror != nil {
		share := shareOf(h.MirrorPercentage, All)
		if h.MirrorPercentage == nil && h.MirrorPercent != nil {
			share = percent(float64(h.MirrorPercent.Value))
		}
		out.mirror(p.destination(h.Mirror), share)
	}
	for _, m := range h.Mirrors {
		if m.GetDestination() != nil {
			out.mirror(p.destination(m.Destination), shareOf(m.Percentage, All))
		}
	}
	return out
}

func (h *HTTP) mirror(to Destination, share Share) {
	if share > 0 {
		h.Mirrors = append(h.Mirrors, Mirror{to, share})
	}
}

// does says whether the route does anything for anybody.
func (h *HTTP) does() bool {
	return len(h.Matches) > 0 && (len(h.Destinations) > 0 || h.Redirect != nil || h.DirectResponse != nil)
}

func (p parser) httpMatch(m *networking.HTTPMatchRequest) HTTPMatch {
	out := HTTPMatch{
		Where: p.where(m.Port, m.Gateways, m.SourceLabels, m.SourceNamespace), Name: m.Name, StatPrefix: m.StatPrefix,
		URI: textOf(m.Uri), IgnoreURICase: m.IgnoreUriCase, Scheme: textOf(m.Scheme), Method: textOf(m.Method), Authority: textOf(m.Authority),
	}
	for _, list := range []struct {
		of      map[string]*networking.StringMatch
		without bool
	}{{m.Headers, false}, {m.WithoutHeaders, true}} {
		for _, name := range slices.Sorted(maps.Keys(list.of)) {
			if slices.Contains([]string{"uri", "scheme", "method", "authority"}, name) {
				continue // as the API says
			}
			if path, ok := ClaimPath(name); ok {
				out.Claims = append(out.Claims, ClaimMatch{path, valueOf(list.of[name]), list.without})
				continue
			}
			out.Headers = append(out.Headers, HeaderMatch{strings.ToLower(name), valueOf(list.of[name]), list.without})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.QueryParams)) {
		out.Query = append(out.Query, QueryMatch{name, valueOf(m.QueryParams[name])})
	}
	return out
}

// textOf reads a match of what every request has; nil where it says nothing.
func textOf(m *networking.StringMatch) *Text {
	if m.GetMatchType() == nil {
		return nil
	}
	t := valueOf(m)
	return &t
}

// valueOf reads a match of what may be absent. Without a word, with "*" for an expression, and with
// an empty prefix, it is about presence.
func valueOf(m *networking.StringMatch) Text {
	switch x := m.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		return NewText(Exact, x.Exact)
	case *networking.StringMatch_Prefix:
		if x.Prefix != "" {
			return NewText(Prefix, x.Prefix)
		}
	case *networking.StringMatch_Regex:
		if x.Regex != "*" {
			return NewText(Regex, x.Regex)
		}
	}
	return Text{}
}

func redirectOf(r *networking.HTTPRedirect) *Redirect {
	if r == nil {
		return nil
	}
	out := &Redirect{
		URI: r.Uri, PrefixRewrite: r.PrefixRewrite, Authority: r.Authority, Scheme: r.Scheme, Port: r.GetPort(), Code: r.RedirectCode,
		FromRequest: r.GetDerivePort() == networking.HTTPRedirect_FROM_REQUEST_PORT,
	}
	if _, derived := r.RedirectPort.(*networking.HTTPRedirect_DerivePort); !derived {
		out.FromRequest = false
	}
	if !slices.Contains([]uint32{301, 302, 303, 307, 308}, out.Code) {
		out.Code = 301
	}
	return out
}

func directResponseOf(d *networking.HTTPDirectResponse) *DirectResponse {
	if d == nil {
		return nil
	}
	body := d.GetBody().GetBytes()
	if text := d.GetBody().GetString_(); text != "" {
		body = []byte(text)
	}
	return &DirectResponse{Status: status(d.Status), Body: body}
}

// status is one that a proxy may answer with; what is none closes.
func status(code uint32) uint32 {
	if code < 200 || code > 599 {
		return 503
	}
	return code
}

func rewriteOf(w *networking.HTTPRewrite) *Rewrite {
	if w == nil {
		return nil
	}
	out := &Rewrite{URI: w.Uri, Authority: w.Authority}
	if x := w.UriRegexRewrite; x != nil {
		out.Regex = NewRegexRewrite(x.Match, x.Rewrite)
	}
	return out
}

// defaultRetryOn is what is retried where attempts are written, and no conditions; Istio's.
var defaultRetryOn = []string{"connect-failure", "refused-stream", "unavailable", "cancelled"}

func retriesOf(r *networking.HTTPRetry) *Retries {
	if r == nil {
		return nil
	}
	out := &Retries{
		Attempts: uint32(max(r.Attempts, 0)), PerTry: duration(r.PerTryTimeout), Backoff: duration(r.Backoff),
		RemoteLocality: r.RetryRemoteLocalities.GetValue(), PreviousHosts: r.RetryIgnorePreviousHosts != nil && !r.RetryIgnorePreviousHosts.Value,
	}
	if r.RetryOn == "" {
		out.On = defaultRetryOn
		return out
	}
	for _, on := range strings.Split(r.RetryOn, ",") {
		on = strings.TrimSpace(on)
		if status, err := strconv.ParseUint(on, 10, 16); err == nil {
			out.OnStatus = append(out.OnStatus, uint32(status))
		} else if on != "" {
			out.On = append(out.On, on)
		}
	}
	return out
}

// delayOf reads a delay. One that does not say of how many requests is of none, as the API says.
func delayOf(d *networking.HTTPFaultInjection_Delay) *Delay {
	if d == nil || duration(d.GetFixedDelay()) == 0 {
		return nil
	}
	out := &Delay{For: duration(d.GetFixedDelay()), Share: shareOf(d.Percentage, 0)}
	if d.Percentage == nil && d.Percent > 0 { // deprecated, and still written
		out.Share = percent(float64(d.Percent))
	}
	if out.Share == 0 {
		return nil
	}
	return out
}

// abortOf is delayOf for an answer in the place of the destination's.
func abortOf(a *networking.HTTPFaultInjection_Abort) *Abort {
	if a == nil {
		return nil
	}
	out := &Abort{Share: shareOf(a.Percentage, 0)}
	switch x := a.ErrorType.(type) {
	case *networking.HTTPFaultInjection_Abort_HttpStatus:
		out.Status = status(uint32(max(x.HttpStatus, 0)))
	case *networking.HTTPFaultInjection_Abort_GrpcStatus:
		code, ok := GRPCCode(x.GrpcStatus)
		if !ok {
			return nil
		}
		out.GRPC = &code
	default:
		return nil
	}
	if out.Share == 0 {
		return nil
	}
	return out
}

func corsOf(c *networking.CorsPolicy) *CORS {
	if c == nil {
		return nil
	}
	out := &CORS{
		Methods: c.AllowMethods, Allow: c.AllowHeaders, Expose: c.ExposeHeaders, MaxAge: duration(c.MaxAge),
		ForwardOthers: c.UnmatchedPreflights != networking.CorsPolicy_IGNORE,
	}
	for _, o := range c.AllowOrigins {
		if one := valueOf(o); one.works() && one.Kind != Present {
			out.Origins = append(out.Origins, one)
		}
	}
	if len(c.AllowOrigins) == 0 {
		for _, o := range c.AllowOrigin { // deprecated, and still written
			out.Origins = append(out.Origins, NewText(Exact, o))
		}
	}
	if c.AllowCredentials != nil {
		out.Credentials = &c.AllowCredentials.Value
	}
	return out
}

func duration(d *durationpb.Duration) time.Duration { return max(d.AsDuration(), 0) }

// shareOf reads a percentage; def where there is none.
func shareOf(p *networking.Percent, def Share) Share {
	if p == nil {
		return def
	}
	return percent(p.Value)
}

func percent(p float64) Share {
	if math.IsNaN(p) {
		return 0
	}
	return Share(math.Round(min(max(p, 0), 100) * float64(All) / 100))
}
