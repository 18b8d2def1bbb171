package route

import (
	"fmt"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Incompatible is why two filters of one rule are none.
const Incompatible = "a rule either redirects or rewrites"

// Backend is one that a route of the Gateway API names, and where.
type Backend struct {
	gatewayv1.BackendObjectReference
	rule, index int
	filter      string // whose it is: requestMirror or externalAuth; "": it is one of backendRefs
}

// Field is where it is named: "rules[0].backendRefs[1]".
func (b Backend) Field() string {
	if b.filter != "" {
		return fmt.Sprintf("rules[%d].filters[%d].%s.backendRef", b.rule, b.index, b.filter)
	}
	return fmt.Sprintf("rules[%d].backendRefs[%d]", b.rule, b.index)
}

// Rule is the field of its rule: "rules[0]".
func (b Backend) Rule() string { return fmt.Sprintf("rules[%d]", b.rule) }

// Mirrors says whether it gets copies.
func (b Backend) Mirrors() bool { return b.filter == "requestMirror" }

// Authorizes says whether it is asked before.
func (b Backend) Authorizes() bool { return b.filter == "externalAuth" }

// Backends are all that a route names, each once for every place.
func Backends(spec any) (out []Backend) {
	plain := func(rule int, list []gatewayv1.BackendRef) {
		for i, b := range list {
			out = append(out, Backend{b.BackendObjectReference, rule, i, ""})
		}
	}
	switch spec := spec.(type) {
	case *gatewayv1.GRPCRouteSpec:
		return Backends(asHTTP(spec))
	case *gatewayv1.HTTPRouteSpec:
		for i := range spec.Rules {
			for k, b := range spec.Rules[i].BackendRefs {
				out = append(out, Backend{b.BackendObjectReference, i, k, ""})
			}
			for k, f := range spec.Rules[i].Filters {
				if f.RequestMirror != nil {
					out = append(out, Backend{f.RequestMirror.BackendRef, i, k, "requestMirror"})
				}
				if f.ExternalAuth != nil {
					out = append(out, Backend{f.ExternalAuth.BackendRef, i, k, "externalAuth"})
				}
			}
		}
	case *gatewayv1.TLSRouteSpec:
		for i, r := range spec.Rules {
			plain(i, r.BackendRefs)
		}
	case *gatewayv1.TCPRouteSpec:
		for i, r := range spec.Rules {
			plain(i, r.BackendRefs)
		}
	case *gatewayv1.UDPRouteSpec:
		for i, r := range spec.Rules {
			plain(i, r.BackendRefs)
		}
	}
	return out
}

// Unsupported finds the first field of a route of the Gateway API that is not done, and why; "" without any.
func Unsupported(spec any) (field, why string) {
	switch spec := spec.(type) {
	case *gatewayv1.GRPCRouteSpec:
		return Unsupported(asHTTP(spec))
	case *gatewayv1.HTTPRouteSpec:
		for i := range spec.Rules {
			if field, why := unsupportedRule(&spec.Rules[i]); field != "" {
				return fmt.Sprintf("rules[%d].%s", i, field), why
			}
		}
	case *gatewayv1.TLSRouteSpec:
		if len(spec.Rules) > 1 {
			return "rules", "only one can count, since nothing tells them apart"
		}
	case *gatewayv1.TCPRouteSpec:
		if len(spec.Rules) > 1 {
			return "rules", "only one can count, since nothing tells them apart"
		}
	case *gatewayv1.UDPRouteSpec:
		if len(spec.Rules) > 1 {
			return "rules", "only one can count, since nothing tells them apart"
		}
	}
	return "", ""
}

func unsupportedRule(r *gatewayv1.HTTPRouteRule) (field, why string) {
	if field, why := unsupportedSession(r); why != "" {
		return strings.TrimSuffix("sessionPersistence."+field, "."), why
	}
	types := map[gatewayv1.HTTPRouteFilterType]bool{}
	for i := range r.Filters {
		if why := unsupportedFilter(&r.Filters[i], r); why != "" {
			return fmt.Sprintf("filters[%d]", i), why
		}
		if f := r.Filters[i].Type; f == gatewayv1.HTTPRouteFilterExternalAuth && types[f] {
			return fmt.Sprintf("filters[%d]", i), "a rule has one authorizer asked"
		}
		types[r.Filters[i].Type] = true
	}
	if types[gatewayv1.HTTPRouteFilterRequestRedirect] && types[gatewayv1.HTTPRouteFilterURLRewrite] {
		return "filters", Incompatible
	}
	for i := range r.Matches {
		p := gatewayParser{}
		if m := p.match(&r.Matches[i]); !m.works() {
			return fmt.Sprintf("matches[%d]", i), "it holds an expression, or a name, that no proxy takes"
		}
	}
	for i := range r.BackendRefs {
		for j := range r.BackendRefs[i].Filters {
			f := &r.BackendRefs[i].Filters[j]
			at := fmt.Sprintf("backendRefs[%d].filters[%d]", i, j)
			if f.Type != gatewayv1.HTTPRouteFilterRequestHeaderModifier && f.Type != gatewayv1.HTTPRouteFilterResponseHeaderModifier {
				return at, "of a backend only headers are changed"
			}
			if why := unsupportedFilter(f, r); why != "" {
				return at, why
			}
		}
	}
	return "", ""
}

func unsupportedFilter(f *gatewayv1.HTTPRouteFilter, r *gatewayv1.HTTPRouteRule) string {
	switch f.Type {
	case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
		return reservedIn(f.RequestHeaderModifier, true)
	case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		return reservedIn(f.ResponseHeaderModifier, false)
	case gatewayv1.HTTPRouteFilterRequestRedirect:
		return unsupportedPath(f.RequestRedirect != nil, func() *gatewayv1.HTTPPathModifier { return f.RequestRedirect.Path }, r)
	case gatewayv1.HTTPRouteFilterURLRewrite:
		return unsupportedPath(f.URLRewrite != nil, func() *gatewayv1.HTTPPathModifier { return f.URLRewrite.Path }, r)
	case gatewayv1.HTTPRouteFilterRequestMirror, gatewayv1.HTTPRouteFilterCORS:
		return ""
	case gatewayv1.HTTPRouteFilterExternalAuth:
		return unsupportedAsks(f.ExternalAuth)
	default:
		return "filters of type " + string(f.Type) + " are not known"
	}
}

// unsupportedPath holds what replaces a prefix to matches that have one.
func unsupportedPath(there bool, path func() *gatewayv1.HTTPPathModifier, r *gatewayv1.HTTPRouteRule) string {
	if !there {
		return "the filter is empty"
	}
	if p := path(); p != nil && p.Type == gatewayv1.PrefixMatchHTTPPathModifier {
		for _, m := range r.Matches {
			if m.Path != nil && m.Path.Type != nil && *m.Path.Type != gatewayv1.PathMatchPathPrefix {
				return "there is no prefix to replace where a match is not of one"
			}
		}
	}
	return ""
}

func reservedIn(f *gatewayv1.HTTPHeaderFilter, request bool) string {
	if f == nil {
		return "the filter is empty"
	}
	var all []string
	for _, list := range [...][]gatewayv1.HTTPHeader{f.Set, f.Add} {
		for _, h := range list {
			all = append(all, string(h.Name))
		}
	}
	for _, name := range append(all, f.Remove...) {
		if why := Reserved(name, request); why != "" {
			return "header " + strings.ToLower(name) + " " + why
		}
	}
	return ""
}
