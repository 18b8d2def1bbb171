package route

import (
	"fmt"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// ExternalAuth is who a rule has asked whether a request may pass, before it goes on: https://gateway-api.sigs.k8s.io/geps/gep-1494/
type ExternalAuth struct {
	Destination
	GRPC bool   `json:",omitempty"` // by Envoy's protocol for it; else by HTTP
	Path string `json:",omitempty"` // put before the request's, without a "/" at its end; of HTTP
	// Sent are headers of the request that it is told; none: by gRPC all, by HTTP the API's own alone.
	Sent []string `json:",omitempty"`
	// Taken are headers of its answer that go on with the request; none: all that are not about the answer itself. Of HTTP.
	Taken []string `json:",omitempty"`
	Body  uint32   `json:",omitempty"` // how many bytes of the body it is told at most; longer ones are refused. 0: none
}

// asks reads the filter of a rule.
func (p gatewayParser) asks(f *gatewayv1.HTTPExternalAuthFilter) *ExternalAuth {
	if f == nil {
		return nil
	}
	out := &ExternalAuth{Destination: p.find(f.BackendRef), GRPC: f.ExternalAuthProtocol == gatewayv1.HTTPRouteExternalAuthGRPCProtocol}
	if f.GRPCAuthConfig != nil {
		out.Sent = f.GRPCAuthConfig.AllowedRequestHeaders
	}
	if h := f.HTTPAuthConfig; h != nil {
		out.Sent, out.Taken = h.AllowedRequestHeaders, h.AllowedResponseHeaders
		if path := strings.Trim(h.Path, "/"); path != "" {
			out.Path = "/" + path
		}
	}
	if f.ForwardBody != nil {
		out.Body = uint32(f.ForwardBody.MaxSize)
	}
	return out
}

// unsupportedAsks says what of the filter is not done; "" for nothing.
func unsupportedAsks(f *gatewayv1.HTTPExternalAuthFilter) string {
	if f == nil {
		return "the filter is empty"
	}
	var sent, taken []string
	switch f.ExternalAuthProtocol {
	case gatewayv1.HTTPRouteExternalAuthGRPCProtocol:
		if f.HTTPAuthConfig != nil {
			return "externalAuth.http is for protocol HTTP: remove it"
		}
		if f.GRPCAuthConfig != nil {
			sent = f.GRPCAuthConfig.AllowedRequestHeaders
		}
	case gatewayv1.HTTPRouteExternalAuthHTTPProtocol:
		if f.GRPCAuthConfig != nil {
			return "externalAuth.grpc is for protocol GRPC: remove it"
		}
		if h := f.HTTPAuthConfig; h != nil {
			sent, taken = h.AllowedRequestHeaders, h.AllowedResponseHeaders
			if strings.ContainsAny(h.Path, "?# ") {
				return fmt.Sprintf("externalAuth.http.path %q is no beginning of a path", h.Path)
			}
		}
	default:
		return fmt.Sprintf("externalAuth.protocol %q is neither GRPC nor HTTP", f.ExternalAuthProtocol)
	}
	for _, name := range sent {
		if !isToken(name) {
			return fmt.Sprintf("externalAuth: %q in allowedHeaders is no header's name", name)
		}
	}
	for _, name := range taken {
		if !may(strings.ToLower(name), true) {
			return fmt.Sprintf("externalAuth: %q in allowedResponseHeaders is no header that an authorizer may write", name)
		}
	}
	return ""
}

// AsksAuthorizer says whether a rule of a route of the Gateway API has somebody asked.
func AsksAuthorizer(spec any) bool { return len(askedBackends(spec, "")) > 0 }

// AskedByGRPC are the backends that are asked by gRPC.
func AskedByGRPC(spec any) []gatewayv1.BackendObjectReference {
	return askedBackends(spec, gatewayv1.HTTPRouteExternalAuthGRPCProtocol)
}

// askedBackends are those that are asked by a protocol; "" is any.
func askedBackends(spec any, protocol gatewayv1.HTTPRouteExternalAuthProtocol) (out []gatewayv1.BackendObjectReference) {
	of, is := spec.(*gatewayv1.HTTPRouteSpec)
	if !is {
		return nil
	}
	for i := range of.Rules {
		for _, f := range of.Rules[i].Filters {
			if f.ExternalAuth != nil && (protocol == "" || f.ExternalAuth.ExternalAuthProtocol == protocol) {
				out = append(out, f.ExternalAuth.BackendRef)
			}
		}
	}
	return out
}
