package admission

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// headers checks what a route does to headers. A request's authority may be set as one.
func (r *report) headers(field string, h *networking.Headers) {
	r.headerOperations(at(field, "request"), h.GetRequest(), true)
	r.headerOperations(at(field, "response"), h.GetResponse(), false)
}

func (r *report) headerOperations(field string, o *networking.Headers_HeaderOperations, request bool) {
	r.setHeaders(at(field, "set"), o.GetSet(), request)
	r.setHeaders(at(field, "add"), o.GetAdd(), request)
	for i, name := range o.GetRemove() {
		r.setHeader(at(field, "remove", i), name, false)
		r.reserved(at(field, "remove", i), name, request)
	}
}

func (r *report) setHeaders(field string, values map[string]string, request bool) {
	for _, name := range sortedKeys(values) {
		r.setHeader(strict.Join(field, name), name, request)
		r.reserved(strict.Join(field, name), name, request)
		r.headerValue(strict.Join(field, name), values[name])
	}
}

func (r *report) setHeader(field, name string, authority bool) {
	own := strings.HasPrefix(name, ":") || strings.EqualFold(name, "host")
	switch {
	case name == "":
		r.reject(field, nil, "the header has no name", "write it")
	case own && !(authority && isAuthority(name)):
		r.reject(field, name, "is no header that can be changed here", "write another; a request's :authority may be set")
	case !own && !headerForm.MatchString(name):
		r.warn(field, name, "is no header's name", "write letters, digits and hyphens")
	}
}

// reserved rejects headers that would break decisions, or the messages of others.
func (r *report) reserved(field, name string, request bool) {
	if why := route.Reserved(name, request); why != "" {
		r.reject(field, name, why+", and is not for routes to change", "remove it")
	}
}

func isAuthority(name string) bool {
	return strings.EqualFold(name, ":authority") || strings.EqualFold(name, "host")
}

// headerValue rejects control characters, and what Envoy's formatter cannot read: "%" begins a variable, "%%" is one.
func (r *report) headerValue(field, value string) {
	if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		r.reject(field, value, "holds control characters", "remove them")
	} else if !formats(value) {
		r.reject(field, value, `a variable is not ended, or "%" is not written as "%%"`, `write "%%" for the sign itself, and variables as in %DOWNSTREAM_REMOTE_ADDRESS%`)
	} else if !route.Formats(value) {
		r.reject(field, value, "names a variable that tells of the proxy itself, or that proxies do not know", "write some of "+strings.Join(route.Variables[:12], ", ")+" and the like (docs/how-to/routes.md)")
	}
}

// formats says whether every "%" of a value is doubled or belongs to a variable: %NAME%, %NAME(ARGUMENT)% or
// %NAME(["ARGUMENT", …])%.
func formats(value string) bool {
	for {
		_, rest, found := strings.Cut(value, "%")
		if !found {
			return true
		}
		if strings.HasPrefix(rest, "%") {
			value = rest[1:]
			continue
		}
		end := strings.IndexAny(rest, "%(")
		if end < 0 {
			return false
		}
		value = rest[end+1:]
		if rest[end] == '(' {
			var ok bool
			if value, ok = arguments(value); !ok {
				return false
			}
		}
	}
}

// arguments reads a variable's, behind the parenthesis, up to its last "%", and gives what follows.
func arguments(s string) (rest string, ok bool) {
	s = strings.TrimLeft(s, " ")
	if list, is := strings.CutPrefix(s, "["); is {
		if s, ok = stringList(list); !ok {
			return "", false
		}
	} else {
		end := unescaped(s, ")")
		if end < 0 {
			return "", false
		}
		s = s[end:]
	}
	if s, ok = strings.CutPrefix(strings.TrimLeft(s, " "), ")"); !ok {
		return "", false
	}
	return strings.CutPrefix(strings.TrimLeft(s, " "), "%")
}

// stringList reads JSON strings with commas between them, up to "]", and gives what follows.
func stringList(s string) (rest string, ok bool) {
	for {
		if s, ok = strings.CutPrefix(strings.TrimLeft(s, " "), `"`); !ok {
			return "", false
		}
		end := unescaped(s, `"`)
		if end < 0 {
			return "", false
		}
		s = strings.TrimLeft(s[end+1:], " ")
		if rest, ok = strings.CutPrefix(s, "]"); ok {
			return rest, true
		}
		if s, ok = strings.CutPrefix(s, ","); !ok {
			return "", false
		}
	}
}

// unescaped finds the first of the characters that no backslash is before; -1 without one.
func unescaped(s, chars string) int {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		} else if strings.IndexByte(chars, s[i]) >= 0 {
			return i
		}
	}
	return -1
}

// authorities rejects several ways of setting the authority.
func (r *report) authorities(field string, h *networking.HTTPRoute) {
	ways := 0
	if h.GetRewrite().GetAuthority() != "" {
		ways++
	}
	for _, values := range []map[string]string{h.GetHeaders().GetRequest().GetSet(), h.GetHeaders().GetRequest().GetAdd()} {
		for name := range values {
			if isAuthority(name) {
				ways++
			}
		}
	}
	if ways > 1 {
		r.reject(at(field, "headers.request"), nil, "the authority is set more than once", "set it in one place: rewrite.authority, or one header")
	}
}

// methods are HTTP's (RFC 9110 section 9.3, RFC 5789).
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

func (r *report) cors(field string, c *networking.CorsPolicy) {
	if c == nil {
		return
	}
	for i, o := range c.AllowOrigins {
		if o.GetExact() == "" && o.GetPrefix() == "" && o.GetRegex() == "" {
			r.reject(at(field, "allowOrigins", i), nil, "says no origin", "write exact, prefix or regex")
		} else if re := o.GetRegex(); re != "" {
			r.regex(at(field, "allowOrigins", i, "regex"), re)
		}
	}
	for i, m := range c.AllowMethods {
		if !slices.Contains(methods, m) {
			r.reject(at(field, "allowMethods", i), m, "is no method of HTTP", "write some of "+strings.Join(methods, ", "))
		}
	}
	r.corsHeaders(at(field, "allowHeaders"), c.AllowHeaders)
	r.corsHeaders(at(field, "exposeHeaders"), c.ExposeHeaders)
	r.positive(at(field, "maxAge"), c.MaxAge)
	if c.MaxAge.GetNanos() > 0 {
		r.reject(at(field, "maxAge"), c.MaxAge.AsDuration(), "has parts of a second", "write whole seconds")
	}
}

func (r *report) corsHeaders(field string, names []string) {
	for i, h := range names {
		if h != "*" && !headerForm.MatchString(h) {
			r.reject(at(field, i), h, "is no header's name", `write letters, digits and hyphens, or "*"`)
		}
	}
}

// isStatus says whether a text is a status of HTTP that has a name.
func isStatus(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && http.StatusText(n) != ""
}
