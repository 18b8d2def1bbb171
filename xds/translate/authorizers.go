package translate

import (
	"strings"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/authzfilter"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/wire"
)

// Authorizers that policies have asked (the action CUSTOM) are two things of a proxy: what it asks about, and how, comes with its other
// policies; and who is asked is a cluster of its own, apart from what its apps may reach.

// asks are the names of those that a node's policies have asked.
func asks(s *registry.Snapshot, n Node, kind Kind) string {
	var set authz.Set
	switch kind {
	case Sidecar:
		if s.TakesMutual(n.Labels) {
			set = s.AuthorizingInbound(n.Namespace, n.Labels)
		}
	case Gateway, Ingress:
		set = s.Authorizing(n.Namespace, n.Labels)
	}
	return strings.Join(set.Providers(), ",")
}

// askedFrom is what the cluster of who is asked is made from; nothing where nobody is.
type askedFrom struct {
	By        *resolve.Authorizer
	Endpoints *registry.EndpointSet // of a Service
	Trust     envoy.TrustDomains
	Secrets   []farend.Material
	As        string // the name of the cluster
}

func askedOf(s *registry.Snapshot, c Class) askedFrom {
	if c.Asks == "" {
		return askedFrom{}
	}
	return askedBy(s, c, strings.Split(c.Asks, ",")...)
}

// askedBy is that where these providers are named.
func askedBy(s *registry.Snapshot, c Class, names ...string) (out askedFrom) {
	var set authz.Set
	for _, name := range names {
		set = append(set, &authz.Policy{Action: authz.Custom, Provider: name})
	}
	if out.By, _ = resolve.AuthorizerOf(s, set, c.near(s), c.secretsAt()); out.By == nil {
		return askedFrom{}
	}
	far := &out.By.Far
	if out.Trust = envoy.TrustsOf(s.Mesh); far.Service.Tabled() {
		out.Endpoints = s.EndpointSet(far.Service.Host)
	}
	if c.Plain {
		*far = far.WithoutMutual()
	}
	out.As = clusterAsked(out.By)
	u := uses{secrets: map[registry.ServedCredential]int{}}
	if g, ok := far.Restrictions.Given[out.By.Port.Number]; ok {
		u.secrets[g] = 1
	}
	out.Secrets = materials(s, u)
	return out
}

// resources are the cluster, with its endpoints and what it needs of Secrets.
func (a askedFrom) resources() []*resource.Resource {
	if a.By == nil {
		return nil
	}
	far, port, svc := &a.By.Far, a.By.Port, *a.By.Far.Service
	mutual := farend.MutualTo(far.Mutual(port), &svc, port, "", far.MeshTLS, far.Rule.TLSFor(port.Number), a.Trust)
	switch {
	case a.By.GRPC:
		port.Protocol = registry.HTTP2
	case !port.Protocol.IsHTTP():
		port.Protocol = registry.HTTP
	}
	name := a.As
	way := farend.Options{
		TLS: far.Rule.TLSFor(port.Number), Given: far.Restrictions.Given[port.Number], Connect: far.Rule.ConnectTimeoutOf("", port.Number, far.Connect),
		Traffic: far.Rule.SubsetTraffic("", port.Number), Mutual: mutual, Near: far.Near,
	}
	var out []*resource.Resource
	if svc.Tabled() {
		svc.Resolution = registry.Static // of a headless Service, too
		var list []registry.Endpoint
		if a.Endpoints != nil {
			list = a.Endpoints.List
		}
		out = append(out, farend.SealLoadAssignment(name, port, way.Reaching(&svc, port, farend.Reachable(list, far.Restrictions))...))
	} else {
		svc.Endpoints = farend.Reachable(svc.Endpoints, far.Restrictions)
	}
	role := wire.RoleMesh
	if svc.External {
		role = wire.RoleExternal
	}
	out = append(out, farend.Cluster(resource.Cluster, name, &svc, port, way, envoy.Metadata(role, envoy.ObjectRef(svc.SourceOf(port))))...)
	return append(out, farend.SealSecrets(a.Secrets)...)
}

func clusterAsked(a *resolve.Authorizer) string {
	return wire.AuthorizerCluster(a.Port.Number, a.Far.Service.Host)
}

// CallsAuthorizer says whether a resource is one by which an authorizer is asked.
func CallsAuthorizer(name string) bool {
	return strings.HasPrefix(name, envoy.FilterCustom) || strings.HasPrefix(name, envoy.FilterAuthorizer)
}

// IsLocalAuthorization says whether a resource is one by which a proxy judges by itself: of tokens, or of what denies and allows.
func IsLocalAuthorization(name string) bool {
	switch name {
	case envoy.FilterAuthz, envoy.FilterAuthzRequests, envoy.FilterAuthzConnections, envoy.FilterTokens:
		return true
	}
	return false
}

// AuthorizerInputs are the names of what says what somebody is asked about.
func AuthorizerInputs() []string { return []string{envoy.FilterCustom, envoy.FilterCustomConnections} }

// AuthorizerFilterName is the name of what asks about what one of Abouts says.
func AuthorizerFilterName(about string) string {
	if about == envoy.FilterCustomConnections {
		return envoy.FilterAuthorizerConnections
	}
	return envoy.FilterAuthorizer
}

// nobodyAsked are the two filters, of requests or of connections, where nobody is asked: closed denies what the first one denies by itself, if
// anything. The second denies what a first one notes that is of before, or after, an edit.
func nobodyAsked(closed *envoy.OnMatch) []*resource.Resource {
	return []*resource.Resource{envoy.SealExtension(envoy.FilterCustom, authzfilter.Asked(nil, closed)), envoy.SealExtension(envoy.FilterAuthorizer, envoy.NoAuthorizer())}
}

func nobodyAskedOfConnections(closed *envoy.OnMatch) []*resource.Resource {
	return []*resource.Resource{
		envoy.SealExtension(envoy.FilterCustomConnections, authzfilter.OfConnections(authzfilter.Asked(nil, closed))),
		envoy.SealExtension(envoy.FilterAuthorizerConnections, envoy.NoConnectionAuthorizer()),
	}
}

// askedInbound are the filters by which a sidecar, or an ingress gateway, has an authorizer asked about requests and connections. Who is asked
// by HTTP is told of no connections: these are closed, unless one who cannot be asked lets them in.
func askedInbound(s *registry.Snapshot, set authz.Set, see authzfilter.Inputs) []*resource.Resource {
	by, why := resolve.AuthorizerOf(s, set, registry.ClientLocation{}, registry.GivesSecrets)
	switch {
	case why != "":
		return append(nobodyAsked(authzfilter.AskedRequests(set, see, why)), nobodyAskedOfConnections(authzfilter.AskedConnections(set, see, why))...)
	case by == nil:
		return append(nobodyAsked(nil), nobodyAskedOfConnections(nil)...)
	}
	asker := envoy.Authorizer{Authorizer: by.Authorizer, Cluster: clusterAsked(by)}
	out := []*resource.Resource{
		envoy.SealExtension(envoy.FilterCustom, authzfilter.Asked(authzfilter.AskedRequests(set, see, ""), nil)),
		envoy.SealExtension(envoy.FilterAuthorizer, asker.Requests()),
	}
	switch {
	case by.GRPC:
		connections := authzfilter.Asked(authzfilter.AskedConnections(set, see, ""), nil)
		return append(out, envoy.SealExtension(envoy.FilterCustomConnections, authzfilter.OfConnections(connections)), envoy.SealExtension(envoy.FilterAuthorizerConnections, asker.Connections()))
	case by.FailOpen:
		return append(out, nobodyAskedOfConnections(nil)...)
	default:
		return append(out, nobodyAskedOfConnections(authzfilter.AskedConnections(set, see, authzfilter.OfRequestsAlone(by.Name)))...)
	}
}

// askedAtGateway are those of an egress gateway: connections are asked about in place of being requests, and nobody can tell an authorizer
// of them. The route of a request is settled, since EgressPolicies have judged it.
func askedAtGateway(s *registry.Snapshot, set authz.Set, see authzfilter.Inputs) []*resource.Resource {
	by, why := resolve.AuthorizerOf(s, set, registry.ClientLocation{}, registry.GivesSecrets)
	if by == nil && why == "" {
		return nobodyAsked(nil)
	}
	spoken := func(connections, requests *envoy.OnMatch) *envoy.OnMatch {
		return envoy.OnMatchMatcher(envoy.ExactMatchMap(envoy.StateInput(wire.StateSpoken), map[string]*envoy.OnMatch{envoy.KindTLS: connections, envoy.KindTCP: connections}, requests))
	}
	if by == nil {
		return nobodyAsked(spoken(authzfilter.AskedConnections(set, see, why), authzfilter.AskedRequests(set, see, why)))
	}
	passes := envoy.OnMatchVerdict(wire.NoRule, true)
	connections := passes
	if !by.FailOpen {
		connections = authzfilter.AskedConnections(set, see, authzfilter.OfRequestsAlone(by.Name))
	}
	asker := envoy.Authorizer{Authorizer: by.Authorizer, Cluster: clusterAsked(by), Fixed: true}
	return []*resource.Resource{
		envoy.SealExtension(envoy.FilterCustom, authzfilter.Asked(spoken(passes, authzfilter.AskedRequests(set, see, "")), spoken(connections, passes))),
		envoy.SealExtension(envoy.FilterAuthorizer, asker.Requests()),
	}
}
