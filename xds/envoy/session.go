package envoy

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	cookiev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/cookie/v3"
	headerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/header/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/type/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// FilterSession keeps requests with the endpoint that their client names, where the route says by what. It stands where the request's cluster is
// settled, and does nothing by itself.
const FilterSession = "envoy.filters.http.stateful_session"

func sessions() *hcmv3.HttpFilter { return httpFilter(FilterSession, &sessionv3.StatefulSession{}) }

// CookieSession is a route's session that a cookie carries. Browsers give it to no script and to no other site's page, and, where it is secure, to
// nobody without TLS. A lifetime of 0 is the client's.
//
// An endpoint that the cluster does not have is not connected to: the request goes where any would, and its answer has a new cookie. Strict, it
// would be answered with 503, and clients whose pod is gone with it.
func CookieSession(name, path string, lifetime time.Duration, secure bool) *anypb.Any {
	attributes := []*httpv3.CookieAttribute{{Name: "SameSite", Value: "Strict"}}
	if secure {
		attributes = append(attributes, &httpv3.CookieAttribute{Name: "Secure"})
	}
	cookie := &httpv3.Cookie{Name: name, Path: path, Attributes: attributes}
	if lifetime > 0 {
		cookie.Ttl = durationpb.New(lifetime)
	}
	return session("cookie", &cookiev3.CookieBasedSessionState{Cookie: cookie})
}

// HeaderSession is one that a header carries.
func HeaderSession(name string) *anypb.Any {
	return session("header", &headerv3.HeaderBasedSessionState{Name: name})
}

func session(kind string, state proto.Message) *anypb.Any {
	return ToAny(&sessionv3.StatefulSessionPerRoute{Override: &sessionv3.StatefulSessionPerRoute_StatefulSession{StatefulSession: &sessionv3.StatefulSession{
		SessionState: &corev3.TypedExtensionConfig{Name: "envoy.http.stateful_session." + kind, TypedConfig: ToAny(state)},
	}}})
}
