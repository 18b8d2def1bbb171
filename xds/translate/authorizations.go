package translate

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/tokens"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/authzfilter"
	"github.com/sallyport/sallyport/xds/wire"
)

// authorizedBy are the policies in a PolicyClass, as far as they are there.
func authorizedBy(s *registry.Snapshot, p PolicyClass) (out authz.Set) {
	for _, name := range strings.Split(p.Authz, ",") {
		ns, name, _ := strings.Cut(name, "/")
		if found := s.AuthorizationPolicy(ns, name); found != nil {
			out = append(out, found)
		}
	}
	return out
}

// verifiedBy are the RequestAuthentications in a PolicyClass, as far as they are there.
func verifiedBy(s *registry.Snapshot, p PolicyClass) (out tokens.Set) {
	for _, name := range strings.Split(p.Tokens, ",") {
		ns, name, _ := strings.Cut(name, "/")
		if found := s.RequestAuthentication(ns, name); found != nil {
			out = append(out, found)
		}
	}
	return out
}

// authorizedFrom says whether one of the namespaces wrote an AuthorizationPolicy or a RequestAuthentication in a PolicyClass.
func (p PolicyClass) authorizedFrom(namespaces []string) bool {
	return slices.ContainsFunc(strings.Split(p.Authz+","+p.Tokens, ","), func(name string) bool {
		ns, _, of := strings.Cut(name, "/")
		return of && slices.Contains(namespaces, ns)
	})
}

// authorization is what a gateway keeps of AuthorizationPolicies, and of RequestAuthentications. Connections are asked about there, in place of
// being requests.
func authorization(s *registry.Snapshot, p PolicyClass) []*resource.Resource {
	set, see := authorizedBy(s, p), atGateway(envoy.TrustsOf(s.Mesh))
	f := authzfilter.Filter(set, func(set authz.Set) *envoy.OnMatch {
		connections := authzfilter.Connections(set, see)
		return envoy.OnMatchMatcher(envoy.ExactMatchMap(envoy.StateInput(wire.StateSpoken), map[string]*envoy.OnMatch{
			envoy.KindTLS: connections, envoy.KindTCP: connections,
		}, authzfilter.Requests(set, see)))
	})
	return append(askedAtGateway(s, set, see), envoy.SealExtension(envoy.FilterAuthz, f), envoy.SealExtension(envoy.FilterTokens, authzfilter.Tokens(verifiedBy(s, p), false)))
}

// atGateway is how an egress gateway sees its clients: by their certificates, and by what it is asked for, of which the port is the one
// that the workload wants to reach.
func atGateway(trust envoy.TrustDomains) authzfilter.Inputs {
	from, asked := envoy.StateInput(wire.StateFrom), envoy.HeaderInput(":authority")
	return authzfilter.Inputs{
		Domains: trust.Domains(), Client: envoy.StateInput(wire.StateClient), From: from, Remote: from,
		Port: func(t authz.Term, values []string) *envoy.Predicate {
			return envoy.InputMatches(asked, t.Expression(values, nil))
		},
		SNI: func(expression string) *envoy.Predicate {
			return envoy.AllOf(envoy.InputIs(envoy.StateInput(wire.StateSpoken), envoy.KindTLS), envoy.InputMatches(asked, expression))
		},
	}
}

// inboundAuthorization is what a sidecar keeps of them, of what comes for its pod's app, or an ingress gateway, of what comes into the
// mesh: of requests, and of connections whose bytes nobody reads. They are there without policies, too, so that the first one is no other
// listener.
func inboundAuthorization(s *registry.Snapshot, p PolicyClass, see authzfilter.Inputs) []*resource.Resource {
	set := authorizedBy(s, p)
	requests := authzfilter.Filter(set, func(set authz.Set) *envoy.OnMatch { return authzfilter.Requests(set, see) })
	connections := authzfilter.Filter(set, func(set authz.Set) *envoy.OnMatch { return authzfilter.Connections(set, see) })
	return append(askedInbound(s, set, see),
		envoy.SealExtension(envoy.FilterAuthzRequests, requests),
		envoy.SealExtension(envoy.FilterAuthzConnections, authzfilter.OfConnections(connections)),
		envoy.SealExtension(envoy.FilterTokens, authzfilter.Tokens(verifiedBy(s, p), p.Kind == Ingress)),
	)
}

// IsInboundAuthorization says whether a resource is one of these. What a pod has no ports for is not asked for.
func IsInboundAuthorization(name string) bool {
	switch name {
	case envoy.FilterAuthzRequests, envoy.FilterAuthzConnections, envoy.FilterTokens,
		envoy.FilterCustom, envoy.FilterAuthorizer, envoy.FilterCustomConnections, envoy.FilterAuthorizerConnections:
		return true
	}
	return false
}

// atPod is how a pod's own proxy sees who comes: by the certificate that the client showed in TLS of the mesh, and by the connection's
// addresses, of which the port is the pod's.
func atPod(trust envoy.TrustDomains) authzfilter.Inputs {
	from := envoy.ClientAddressInput()
	return authzfilter.Inputs{
		Domains: trust.Domains(), Client: envoy.StateInput(wire.StateClient), From: from, Remote: from, To: envoy.DestinationAddressInput(),
		Port: func(_ authz.Term, values []string) *envoy.Predicate {
			var any []*envoy.Predicate
			for _, port := range values {
				any = append(any, envoy.InputIs(envoy.PortInput(), port))
			}
			return envoy.AnyOf(any...)
		},
		SNI: func(expression string) *envoy.Predicate { return envoy.InputMatches(envoy.SNIInput(), expression) },
	}
}

// atIngress is how an ingress gateway sees who comes: nobody outside has a name of the mesh, whatever certificate is shown. Who is behind
// the connection is told by as many proxies as the mesh trusts. The port is the one that the gateway's pods listen at.
func atIngress(trust envoy.TrustDomains) authzfilter.Inputs {
	see := atPod(trust)
	see.Remote = envoy.RemoteAddressInput()
	return see
}
