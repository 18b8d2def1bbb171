package translate

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/authorizing"
	"github.com/sallyport/sallyport/xds/wire"
)

// authorizedBy are the policies in a Policed, as far as they are there.
func authorizedBy(s *registry.Snapshot, p Policed) (out authz.Set) {
	for _, name := range strings.Split(p.Authz, ",") {
		ns, name, _ := strings.Cut(name, "/")
		if found := s.AuthorizationPolicy(ns, name); found != nil {
			out = append(out, found)
		}
	}
	return out
}

// authorization is what a gateway keeps of AuthorizationPolicies. Connections are asked about there, in place of being requests.
func authorization(set authz.Set, trust envoy.Trusts) *resource.Resource {
	see := atGateway(trust)
	f := authorizing.Filter(set, func(set authz.Set) *envoy.OnMatch {
		connections := authorizing.Connections(set, see)
		return envoy.Further(envoy.InMap(envoy.StateInput(wire.StateSpoken), map[string]*envoy.OnMatch{
			envoy.KindTLS: connections, envoy.KindTCP: connections,
		}, authorizing.Requests(set, see)))
	})
	return envoy.Seal(resource.Extension, envoy.FilterAuthz, &corev3.TypedExtensionConfig{Name: envoy.FilterAuthz, TypedConfig: envoy.Packed(f)})
}

// atGateway is how an egress gateway sees its clients: by their certificates, and by what it is asked for, of which the port is the one
// that the workload wants to reach.
func atGateway(trust envoy.Trusts) authorizing.Sight {
	from, asked := envoy.StateInput(wire.StateFrom), envoy.HeaderInput(":authority")
	return authorizing.Sight{
		Domains: trust.Domains(), Client: envoy.StateInput(wire.StateClient), From: from, Remote: from,
		Port: func(t authz.Term, values []string) *envoy.Predicate {
			return envoy.IsLike(asked, t.Expression(values, nil))
		},
		SNI: func(expression string) *envoy.Predicate {
			return envoy.All(envoy.Is(envoy.StateInput(wire.StateSpoken), envoy.KindTLS), envoy.IsLike(asked, expression))
		},
	}
}
