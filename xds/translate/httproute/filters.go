package httproute

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	commonfaultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	prioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/route"
	"github.com/sallyport/sallyport/xds/envoy"
)

// faults makes a route delay, or answer with an error, a share of what takes it.
func faults(r *routev3.Route, h *route.HTTP) {
	if h.Delay == nil && h.Abort == nil {
		return
	}
	config := &faultv3.HTTPFault{}
	if d := h.Delay; d != nil {
		config.Delay = &commonfaultv3.FaultDelay{
			FaultDelaySecifier: &commonfaultv3.FaultDelay_FixedDelay{FixedDelay: durationpb.New(d.For)}, Percentage: perMillion(d.Share),
		}
	}
	if a := h.Abort; a != nil {
		config.Abort = &faultv3.FaultAbort{ErrorType: &faultv3.FaultAbort_HttpStatus{HttpStatus: a.Status}, Percentage: perMillion(a.Share)}
		if a.GRPC != nil {
			config.Abort.ErrorType = &faultv3.FaultAbort_GrpcStatus{GrpcStatus: *a.GRPC}
		}
	}
	envoy.WithFilterConfig(r, envoy.FilterFault, envoy.ToAny(config))
}

// cors answers preflights, and tells browsers what answers may be read.
func cors(r *routev3.Route, c *route.CORS) {
	if c == nil {
		return
	}
	config := &corsv3.CorsPolicy{
		AllowMethods: strings.Join(c.Methods, ","), AllowHeaders: strings.Join(c.Allow, ","), ExposeHeaders: strings.Join(c.Expose, ","),
		ForwardNotMatchingPreflights: wrapperspb.Bool(c.ForwardOthers),
	}
	for _, o := range c.Origins {
		config.AllowOriginStringMatch = append(config.AllowOriginStringMatch, textMatch(o))
	}
	if c.MaxAge > 0 {
		config.MaxAge = strconv.Itoa(int(c.MaxAge.Seconds()))
	}
	if c.Credentials != nil {
		config.AllowCredentials = wrapperspb.Bool(*c.Credentials)
	}
	envoy.WithFilterConfig(r, envoy.FilterCORS, envoy.ToAny(config))
}

// askTimeout is how long is waited for the answer of who is asked by a route.
const askTimeout = 10 * time.Second

// Ask has a cluster's server asked about what takes a route, before anything else of the route is done.
func Ask(r *routev3.Route, a *route.ExternalAuth, cluster string) {
	by := &mesh.Authorizer{
		Name: "route", GRPC: a.GRPC, Host: a.Host, Port: a.Port, Timeout: askTimeout, StatusOnError: http.StatusForbidden,
		PathPrefix: a.Path, SentHeaders: a.Sent, Upstream: a.Taken,
	}
	if len(a.Taken) == 0 {
		by.Upstream = []string{"*"}
	}
	if a.Body > 0 {
		by.Body = &mesh.AuthorizerBody{Most: a.Body}
	}
	envoy.WithFilterConfigs(r, envoy.Authorizer{Authorizer: by, Cluster: cluster, Fixed: true}.AskedByRoute())
}

// withSession is what the way to a destination needs, by filter, with what keeps its clients' sessions.
func withSession(e End, s *route.Session) map[string]*anypb.Any {
	if s == nil {
		return e.Filters
	}
	out := maps.Clone(e.Filters)
	if out == nil {
		out = map[string]*anypb.Any{}
	}
	if out[envoy.FilterSession] = envoy.HeaderSession(s.Header); s.Cookie != "" {
		out[envoy.FilterSession] = envoy.CookieSession(s.Cookie, s.Path, s.Lifetime, e.Secure)
	}
	return out
}

// conditions are what is retried, as Envoy spells it.
func conditions(t *route.Retries) string {
	on := t.On
	if len(t.OnStatus) > 0 {
		on = append(on[:len(on):len(on)], "retriable-status-codes")
	}
	return strings.Join(on, ",")
}

// previousPriorities tries endpoints of other localities after the first attempt failed; Istio's frequency.
func previousPriorities() *prioritiesv3.PreviousPrioritiesConfig {
	return &prioritiesv3.PreviousPrioritiesConfig{UpdateFrequency: 2}
}
