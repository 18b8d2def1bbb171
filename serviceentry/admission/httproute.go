package admission

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/serviceentry/decode/strict"
	"github.com/sallyport/sallyport/serviceentry/host"
)

func (r *report) httpRoute(field string, h *networking.HTTPRoute, delegate bool) {
	r.httpActions(field, h, delegate)
	for i, m := range h.Match {
		r.httpMatch(at(field, "match", i), m, delegate || h.Delegate != nil)
	}
	if len(h.Route) > 0 {
		weights := make([]int32, len(h.Route))
		for i, d := range h.Route {
			weights[i] = d.Weight
			r.destination(at(field, "route", i, "destination"), d.Destination)
			r.headers(at(field, "route", i, "headers"), d.Headers)
		}
		r.weights(at(field, "route"), weights)
	}
	r.headers(at(field, "headers"), h.Headers)
	r.positive(at(field, "timeout"), h.Timeout)
	r.retries(at(field, "retries"), h.Retries)
	r.fault(at(field, "fault"), h.Fault)
	r.mirrors(field, h)
	r.redirect(at(field, "redirect"), h.Redirect)
	if w := h.Rewrite; w != nil && w.Uri == "" && w.Authority == "" && w.UriRegexRewrite == nil {
		r.reject(at(field, "rewrite"), nil, "says nothing", "write uri, authority or uriRegexRewrite")
	}
	if w := h.Rewrite.GetUriRegexRewrite(); w != nil {
		r.regex(at(field, "rewrite.uriRegexRewrite.match"), w.Match)
		if h.Rewrite.Uri != "" {
			r.reject(at(field, "rewrite.uri"), h.Rewrite.Uri, "cannot be set together with uriRegexRewrite", "remove one of the two")
		}
	}
	if c := h.CorsPolicy; c != nil {
		for i, o := range c.AllowOrigins {
			r.stringMatch(at(field, "corsPolicy.allowOrigins", i), o)
		}
		r.positive(at(field, "corsPolicy.maxAge"), c.MaxAge)
	}
}

// httpActions checks that a route does exactly one thing.
func (r *report) httpActions(field string, h *networking.HTTPRoute, delegate bool) {
	var actions []string
	for _, a := range []struct {
		name string
		set  bool
	}{
		{"route", len(h.Route) > 0}, {"redirect", h.Redirect != nil},
		{"directResponse", h.DirectResponse != nil}, {"delegate", h.Delegate != nil},
	} {
		if a.set {
			actions = append(actions, a.name)
		}
	}
	switch {
	case len(actions) == 0:
		r.reject(field, nil, "the route does nothing", "write one of route, redirect, directResponse and delegate")
	case len(actions) > 1:
		r.reject(field, nil, strings.Join(actions, " and ")+" cannot be set together", "keep one of them")
	case h.Delegate != nil && h.Delegate.Name == "":
		r.reject(at(field, "delegate.name"), nil, "it is missing", "write the name of a VirtualService without hosts")
	case delegate && h.Delegate != nil:
		r.reject(at(field, "delegate"), h.Delegate.Name, "a delegate cannot delegate again", "write a route, or name spec.hosts")
	}
	if h.Redirect != nil || h.DirectResponse != nil {
		if h.Rewrite != nil {
			r.reject(at(field, "rewrite"), nil, "there is nothing to rewrite for", "remove it")
		}
		if h.Fault != nil {
			r.reject(at(field, "fault"), nil, "cannot be set with redirect or directResponse", "remove it")
		}
	}
	if d := h.DirectResponse; d != nil && (d.Status < 200 || d.Status > 599) {
		r.reject(at(field, "directResponse.status"), d.Status, "is no status to answer with", "write a number from 200 to 599")
	}
}

func (r *report) httpMatch(field string, m *networking.HTTPMatchRequest, delegation bool) {
	single := map[string]*networking.StringMatch{"uri": m.Uri, "scheme": m.Scheme, "method": m.Method, "authority": m.Authority}
	for _, name := range sortedKeys(single) {
		r.delegable(at(field, name), single[name], delegation)
	}
	groups := map[string]map[string]*networking.StringMatch{
		"headers": m.Headers, "withoutHeaders": m.WithoutHeaders, "queryParams": m.QueryParams,
	}
	for _, group := range sortedKeys(groups) {
		matches := groups[group]
		for _, name := range sortedKeys(matches) {
			where := strict.Join(at(field, group), name)
			if group != "queryParams" && !httpguts.ValidHeaderFieldName(strings.TrimPrefix(name, ":")) {
				r.reject(where, name, "is no header's name", "write it in lower case with hyphens")
			}
			if matches[name] == nil {
				r.reject(where, nil, "the match is empty", `write {exact: VALUE}, or {} for "is there"`)
			}
			r.delegable(where, matches[name], delegation)
		}
	}
	r.matchPlace(field, m.Port, m.Gateways, m.SourceNamespace)
}

// delegable checks a match; those on either side of a delegation must be comparable, which regular expressions are
// not.
func (r *report) delegable(field string, m *networking.StringMatch, delegation bool) {
	if m.GetRegex() != "" && delegation {
		r.reject(at(field, "regex"), m.GetRegex(), "regular expressions cannot be used with delegation", "use exact or prefix")
		return
	}
	r.stringMatch(field, m)
}

func (r *report) stringMatch(field string, m *networking.StringMatch) {
	if re, ok := m.GetMatchType().(*networking.StringMatch_Regex); ok {
		r.regex(at(field, "regex"), re.Regex)
	}
}

// regex rejects what RE2, which is Envoy's and Go's, does not compile.
func (r *report) regex(field, value string) {
	if value == "" {
		r.reject(field, nil, "the regular expression is empty", "write one, or use prefix")
	} else if _, err := regexp.Compile(value); err != nil {
		r.reject(field, value, strings.TrimPrefix(err.Error(), "error parsing regexp: "), "mend the regular expression (RE2 syntax)")
	}
}

func (r *report) headers(field string, h *networking.Headers) {
	operations := map[string]*networking.Headers_HeaderOperations{"request": h.GetRequest(), "response": h.GetResponse()}
	for _, part := range sortedKeys(operations) {
		o := operations[part]
		names := slices.Concat(sortedKeys(o.GetSet()), sortedKeys(o.GetAdd()), o.GetRemove())
		for _, name := range names {
			// A request's :authority may be set like a header.
			if !httpguts.ValidHeaderFieldName(name) && !(part == "request" && strings.EqualFold(name, ":authority")) {
				r.reject(at(field, part), name, "is no header's name", "write letters, digits and hyphens")
			}
		}
	}
}

func (r *report) retries(field string, t *networking.HTTPRetry) {
	if t == nil {
		return
	}
	if t.Attempts < 0 {
		r.reject(at(field, "attempts"), t.Attempts, "is negative", "write a number from 0 on")
	}
	if t.Attempts == 0 && (t.PerTryTimeout != nil || t.RetryOn != "") {
		r.reject(at(field, "attempts"), 0, "without attempts the other settings have no effect", "write how often to retry, or remove them")
	}
	r.positive(at(field, "perTryTimeout"), t.PerTryTimeout)
	r.positive(at(field, "backoff"), t.Backoff)
}

func (r *report) fault(field string, f *networking.HTTPFaultInjection) {
	if f == nil {
		return
	}
	if f.Delay == nil && f.Abort == nil {
		r.reject(field, nil, "says nothing", "write delay or abort")
	}
	if d := f.Delay; d != nil {
		r.positive(at(field, "delay.fixedDelay"), d.GetFixedDelay())
		r.share(at(field, "delay.percentage.value"), d.Percentage)
	}
	if a := f.Abort; a != nil {
		if s, ok := a.ErrorType.(*networking.HTTPFaultInjection_Abort_HttpStatus); ok && (s.HttpStatus < 200 || s.HttpStatus > 599) {
			r.reject(at(field, "abort.httpStatus"), s.HttpStatus, "is no status to answer with", "write a number from 200 to 599")
		}
		r.share(at(field, "abort.percentage.value"), a.Percentage)
	}
}

func (r *report) share(field string, p *networking.Percent) {
	if p != nil && (p.Value < 0 || p.Value > 100) {
		r.reject(field, p.Value, "is no percentage", "write a number from 0 to 100")
	}
}

func (r *report) mirrors(field string, h *networking.HTTPRoute) {
	if h.Mirror != nil {
		r.destination(at(field, "mirror"), h.Mirror)
		if len(h.Mirrors) > 0 {
			r.reject(at(field, "mirrors"), nil, "cannot be set together with mirror", "move it into mirrors")
		}
	}
	r.share(at(field, "mirrorPercentage.value"), h.MirrorPercentage)
	for i, m := range h.Mirrors {
		r.destination(at(field, "mirrors", i, "destination"), m.Destination)
		r.share(at(field, "mirrors", i, "percentage.value"), m.Percentage)
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
	if c := d.RedirectCode; c != 0 && !slices.Contains([]uint32{301, 302, 303, 307, 308}, c) {
		r.reject(at(field, "redirectCode"), c, "is no redirect's status", "write 301, 302, 303, 307 or 308")
	}
	if p, ok := d.RedirectPort.(*networking.HTTPRedirect_Port); ok {
		r.port(at(field, "port"), p.Port)
	}
	if d.Authority != "" {
		name, _, _ := strings.Cut(d.Authority, ":")
		if _, err := host.ParseExact(name); err != nil && !isAddress(name) {
			r.warn(at(field, "authority"), d.Authority, "is no host name", fmt.Sprintf("write HOST or HOST:PORT, as in %q", "external.com"))
		}
	}
}
