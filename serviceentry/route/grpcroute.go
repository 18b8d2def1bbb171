package route

import (
	"regexp"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// asHTTP is a GRPCRoute as one of the requests that gRPC makes: POST /SERVICE/METHOD.
func asHTTP(in *gatewayv1.GRPCRouteSpec) *gatewayv1.HTTPRouteSpec {
	out := &gatewayv1.HTTPRouteSpec{CommonRouteSpec: in.CommonRouteSpec, Hostnames: in.Hostnames}
	for i := range in.Rules {
		r := &in.Rules[i]
		rule := gatewayv1.HTTPRouteRule{Name: r.Name, Filters: asHTTPFilters(r.Filters), SessionPersistence: r.SessionPersistence}
		for _, m := range r.Matches {
			match := gatewayv1.HTTPRouteMatch{Path: methodPath(m.Method)}
			for _, h := range m.Headers {
				header := gatewayv1.HTTPHeaderMatch{Name: gatewayv1.HTTPHeaderName(h.Name), Value: h.Value}
				if h.Type != nil {
					kind := gatewayv1.HeaderMatchType(*h.Type)
					header.Type = &kind
				}
				match.Headers = append(match.Headers, header)
			}
			rule.Matches = append(rule.Matches, match)
		}
		for _, b := range r.BackendRefs {
			rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: b.BackendRef, Filters: asHTTPFilters(b.Filters)})
		}
		out.Rules = append(out.Rules, rule)
	}
	return out
}

// methodPath is the path of a method's requests; nil for any.
func methodPath(m *gatewayv1.GRPCMethodMatch) *gatewayv1.HTTPPathMatch {
	if m == nil || (m.Service == nil || *m.Service == "") && (m.Method == nil || *m.Method == "") {
		return nil
	}
	service, method := "", ""
	if m.Service != nil {
		service = *m.Service
	}
	if m.Method != nil {
		method = *m.Method
	}
	kind, value := gatewayv1.PathMatchExact, "/"+service+"/"+method
	quoted := regexp.QuoteMeta
	if m.Type != nil && *m.Type == gatewayv1.GRPCMethodMatchRegularExpression {
		kind, quoted = gatewayv1.PathMatchRegularExpression, func(s string) string { return s }
	}
	switch {
	case method == "" && kind == gatewayv1.PathMatchExact:
		kind, value = gatewayv1.PathMatchPathPrefix, "/"+service
	case service == "" || method == "" || kind == gatewayv1.PathMatchRegularExpression:
		part := func(s string) string {
			if s == "" {
				return "[^/]+"
			}
			return "(?:" + quoted(s) + ")"
		}
		kind, value = gatewayv1.PathMatchRegularExpression, "/"+part(service)+"/"+part(method)
	}
	return &gatewayv1.HTTPPathMatch{Type: &kind, Value: &value}
}

func asHTTPFilters(in []gatewayv1.GRPCRouteFilter) (out []gatewayv1.HTTPRouteFilter) {
	for _, f := range in {
		out = append(out, gatewayv1.HTTPRouteFilter{
			Type: gatewayv1.HTTPRouteFilterType(f.Type), RequestHeaderModifier: f.RequestHeaderModifier, ResponseHeaderModifier: f.ResponseHeaderModifier,
			RequestMirror: f.RequestMirror, ExtensionRef: f.ExtensionRef,
		})
	}
	return out
}
