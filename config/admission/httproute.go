package admission

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/host"
)

func (r *report) httpRoute(field string, h *networking.HTTPRoute, delegate, atGateways bool) {
	r.httpActions(field, h, delegate)
	for i, m := range h.Match {
		r.httpMatch(at(field, "match", i), m, atGateways)
	}
	weights := make([]int32, len(h.Route))
	for i, d := range h.Route {
		weights[i] = d.Weight
		r.destination(at(field, "route", i, "destination"), d.Destination)
		r.headers(at(field, "route", i, "headers"), d.Headers)
	}
	r.weights(at(field, "route"), weights)
	r.headers(at(field, "headers"), h.Headers)
	r.authorities(field, h)
	r.positive(at(field, "timeout"), h.Timeout)
	r.retries(at(field, "retries"), h.Retries)
	r.fault(at(field, "fault"), h.Fault)
	r.mirrors(field, h)
	r.redirect(at(field, "redirect"), h.Redirect)
	r.directResponse(at(field, "directResponse"), h.DirectResponse)
	r.rewrite(at(field, "rewrite"), h.Rewrite)
	r.cors(at(field, "corsPolicy"), h.CorsPolicy)
	r.withoutEffect(field, h)
}

// httpActions checks that a route does exactly one thing.
func (r *report) httpActions(field string, h *networking.HTTPRoute, delegate bool) {
	var actions []string
	for _, a := range []struct {
		name string
		set  bool
	}{
		{"route", len(h.Route) > 0}, {"redirect", h.Redirect != nil}, {"directResponse", h.DirectResponse != nil && h.Delegate == nil},
	} {
		if a.set {
			actions = append(actions, a.name)
		}
	}
	switch {
	case h.Delegate != nil && delegate:
		r.reject(at(field, "delegate"), h.Delegate.Name, "a delegate cannot delegate again", "write a route, or name spec.hosts")
	case h.Delegate != nil:
		if len(actions) > 0 {
			r.reject(field, nil, strings.Join(actions, " and ")+" cannot be set together with delegate", "keep one of them")
		}
		return
	}
	switch {
	case len(actions) == 0:
		r.reject(field, nil, "the route does nothing", "write one of route, redirect, directResponse and delegate")
	case len(actions) > 1:
		r.reject(field, nil, strings.Join(actions, " and ")+" cannot be set together", "keep one of them")
	}
	if h.Redirect != nil || h.DirectResponse != nil {
		if h.Rewrite != nil {
			r.reject(at(field, "rewrite"), nil, "there is nothing to rewrite for", "remove it")
		}
		if h.Fault != nil {
			r.reject(at(field, "fault"), nil, "cannot be set with redirect or directResponse", "remove it")
		}
	}
	if h.Mirror != nil && len(h.Mirrors) > 0 {
		r.reject(at(field, "mirrors"), nil, "cannot be set together with mirror", "move it into mirrors")
	}
}

// What retryOn may name: https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/router_filter
var retryConditions = []string{
	"5xx", "gateway-error", "reset", "reset-before-request", "connect-failure", "retriable-4xx", "refused-stream", "retriable-status-codes",
	"retriable-headers", "envoy-ratelimited", "http3-post-connect-failure",
	"cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable",
}

func (r *report) retries(field string, t *networking.HTTPRetry) {
	if t == nil {
		return
	}
	if t.Attempts < 0 {
		r.reject(at(field, "attempts"), t.Attempts, "is negative", "write a number from 0 on")
	}
	if t.Attempts == 0 && (t.PerTryTimeout != nil || t.RetryOn != "" || t.RetryRemoteLocalities != nil) {
		r.reject(at(field, "attempts"), 0, "without attempts the other settings have no effect", "write how often to retry, or remove them")
	}
	r.positive(at(field, "perTryTimeout"), t.PerTryTimeout)
	r.positive(at(field, "backoff"), t.Backoff)
	if t.RetryOn == "" {
		return
	}
	conditions := strings.Split(t.RetryOn, ",")
	r.unasked(at(field, "retryOn"), conditions)
	for _, condition := range conditions {
		if !slices.Contains(retryConditions, condition) && !isStatus(condition) {
			r.reject(at(field, "retryOn"), condition, "is nothing to retry on", "write statuses, or some of "+strings.Join(retryConditions, ", "))
		}
	}
}

func (r *report) redirect(field string, d *networking.HTTPRedirect) {
	if d == nil {
		return
	}
	if d.Uri == "" && d.Authority == "" && d.RedirectPort == nil && d.Scheme == "" && d.PrefixRewrite == "" {
		r.reject(field, nil, "says not where to", "write one of uri, authority, port, scheme and prefixRewrite")
	}
	if d.Scheme != "" && d.Scheme != "http" && d.Scheme != "https" {
		r.reject(at(field, "scheme"), d.Scheme, "is no scheme", "write http or https")
	}
	r.oneLine(at(field, "uri"), d.Uri)
	r.oneLine(at(field, "prefixRewrite"), d.PrefixRewrite)
	r.oneLine(at(field, "authority"), d.Authority)
	if c := d.RedirectCode; c != 0 && (c < 300 || c > 399) {
		r.reject(at(field, "redirectCode"), c, "is no redirect's status", "write 301, 302, 303, 307 or 308")
	}
	if port := d.GetPort(); port != 0 {
		r.port(at(field, "port"), port)
	}
	if d.Authority != "" {
		name, _, _ := strings.Cut(d.Authority, ":")
		if _, err := host.ParseExact(name); err != nil && !isAddress(name) {
			r.warn(at(field, "authority"), d.Authority, "is no host name", fmt.Sprintf("write HOST or HOST:PORT, as in %q", "external.com"))
		}
	}
}

// maxBody bounds a direct response's body, in bytes.
const maxBody = 1 << 20

func (r *report) directResponse(field string, d *networking.HTTPDirectResponse) {
	if d == nil {
		return
	}
	r.status(at(field, "status"), int32(min(d.Status, 1<<30)))
	if n := max(len(d.GetBody().GetString_()), len(d.GetBody().GetBytes())); n > maxBody {
		r.reject(at(field, "body"), n, "is too large", fmt.Sprintf("write at most %d bytes", maxBody))
	}
}

// status takes what a proxy may answer with.
func (r *report) status(field string, code int32) {
	if code < 200 || code > 599 {
		r.reject(field, code, "is no status to answer with", "write a number from 200 to 599")
	}
}

func (r *report) rewrite(field string, w *networking.HTTPRewrite) {
	if w == nil {
		return
	}
	if w.Uri == "" && w.Authority == "" && w.UriRegexRewrite == nil {
		r.reject(field, nil, "says nothing", "write uri, authority or uriRegexRewrite")
	}
	r.oneLine(at(field, "uri"), w.Uri)
	r.oneLine(at(field, "authority"), w.Authority)
	if u := w.UriRegexRewrite; u != nil {
		r.regex(at(field, "uriRegexRewrite.match"), u.Match)
		r.oneLine(at(field, "uriRegexRewrite.rewrite"), u.Rewrite)
		r.replacement(at(field, "uriRegexRewrite.rewrite"), u.Match, u.Rewrite)
		if u.Rewrite == "" {
			r.reject(at(field, "uriRegexRewrite.rewrite"), nil, "it is missing", `write what takes the place of the match, as in "/\1"`)
		}
		if w.Uri != "" {
			r.reject(at(field, "uri"), w.Uri, "cannot be set together with uriRegexRewrite", "remove one of the two")
		}
	}
}

func (r *report) mirrors(field string, h *networking.HTTPRoute) {
	if h.Mirror != nil {
		r.destination(at(field, "mirror"), h.Mirror)
	}
	if p := h.MirrorPercent; p != nil {
		if p.Value > 100 {
			r.reject(at(field, "mirrorPercent"), p.Value, "is no percentage", "write mirrorPercentage, from 0 to 100")
		}
		r.warn(at(field, "mirrorPercent"), p.Value, "is deprecated", "write mirrorPercentage")
	}
	r.copied(at(field, "mirrorPercentage.value"), h.MirrorPercentage)
	for i, m := range h.Mirrors {
		r.destination(at(field, "mirrors", i, "destination"), m.Destination)
		r.copied(at(field, "mirrors", i, "percentage.value"), m.Percentage)
	}
}

func (r *report) within100(field string, p *networking.Percent) {
	if p != nil && (p.Value < 0 || p.Value > 100) {
		r.reject(field, p.Value, "is no percentage", "write a number from 0 to 100")
	}
}
