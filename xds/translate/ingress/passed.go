package ingress

import (
	"slices"
	"strings"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// SNIPassthrough is what the part of a host of the mesh is made from that mutual TLS is passed on to: a row and a cluster for each port and subset,
// both under the name by which clients ask for it.
type SNIPassthrough struct{ resolve.IngressPassthrough }

// Part is its rows and clusters.
func (p *SNIPassthrough) Part() *part.Part {
	out := part.New()
	p.each(func(port registry.Port, s registry.Subset, name string) {
		for _, table := range p.Tables {
			out.Resources = append(out.Resources, passRow(tableName(table), name, envoy.ObjectRef(p.Service.SourceOf(port)), p.Service.RevisionOf(port)))
		}
		svc := *p.Service
		svc.Endpoints = p.taking(s.Of(svc.Endpoints), port)
		opaque := port
		opaque.Protocol = registry.TCP // it is TLS that is not ended here
		way := p.way(port, s)
		way.Connect = p.Rule.ConnectTimeoutOf(s.Name, port.Number, p.Connect)
		out.Resources = append(out.Resources, farend.Cluster(resource.Cluster, name, &svc, opaque, way, envoy.Metadata(wire.RoleMesh, envoy.ObjectRef(svc.SourceOf(port))))...)
	})
	return out
}

// Endpoints are those of a Service, one resource a cluster.
func (p *SNIPassthrough) Endpoints(list []registry.Endpoint) (out []*resource.Resource) {
	if !p.Service.Tabled() {
		return nil
	}
	p.each(func(port registry.Port, s registry.Subset, name string) {
		out = append(out, farend.SealLoadAssignment(name, port, p.way(port, s).Asked(p.Service, p.taking(s.Of(list), port))...))
	})
	return out
}

func (p *SNIPassthrough) way(port registry.Port, s registry.Subset) farend.Options {
	return farend.Options{Traffic: p.Rule.SubsetTraffic(s.Name, port.Number), Near: p.Near}
}

func (p *SNIPassthrough) each(do func(port registry.Port, s registry.Subset, name string)) {
	for _, port := range p.Service.Ports {
		if port.Protocol == registry.UDP {
			continue
		}
		for _, s := range p.Rule.SubsetsAndAll() {
			do(port, s, resolve.SNI(port.Number, s.Name, p.Service.Host))
		}
	}
}

// taking are the endpoints in the gateway's own network that take mutual TLS: what comes for others does not go round once more.
func (p *SNIPassthrough) taking(list []registry.Endpoint, port registry.Port) []registry.Endpoint {
	t := Backend{IngressTarget: p.IngressTarget}
	list = slices.DeleteFunc(p.Near.Own(t.Connectable(list)), func(e registry.Endpoint) bool { return !e.Meshed(e.PortOf(port)) })
	return unmarked(list)
}

// passRow answers questions about a name with its cluster. Envoy reads TLS names in lower case.
func passRow(table, name, by, revision string) *resource.Resource {
	domain := strings.ToLower(name)
	vh := &routev3.VirtualHost{Name: wire.VhostName(table, domain), Domains: []string{domain}, Routes: []*routev3.Route{
		envoy.Answer{Route: "default", Config: by, Revision: revision, Cluster: name}.Row(envoy.MatchQuestion("")),
	}}
	return envoy.Seal(resource.VirtualHost, vh.Name, vh)
}

// exitChains take what is for egress gateways at a port: the bytes of TLS and TCP by the cluster that they were sent to, which their ALPN says
// (envoy.TunnelProtocols), and requests by the gateway's own TLS name. Envoy chooses chains by names first: where other chains are for some, tunnels to hosts of
// such names have one there, too.
func (p port) exitChains() (out []*listenerv3.FilterChain) {
	seen := map[registry.Ref]bool{}
	for _, s := range p.servers {
		for _, e := range s.Exits {
			cluster := exitCluster(e)
			chain := func(name string, names, alpn []string) {
				match := envoy.MatchTLS()
				match.ServerNames, match.ApplicationProtocols = names, alpn
				out = append(out, envoy.FilterChain(name+e.Ref.String(), match, envoy.PassTLSFilters(cluster)...))
			}
			tunnels := []string{wire.GatewayCluster(registry.GatewayPort, e.Ref.Host(), false)}
			if !seen[e.Ref] {
				seen[e.Ref] = true
				chain("exit-requests/", []string{strings.ToLower(cluster)}, nil)
				chain("exit-tunnels/", nil, tunnels)
			}
			if !slices.Contains(s.Hosts, "*") {
				chain(s.Gateway.Namespace+"/"+s.Gateway.Name+"/"+s.Field+"/exit-tunnels/", s.Hosts, tunnels)
			}
		}
	}
	return out
}

// exitCluster is the name of the cluster of an egress gateway's pods, and the TLS name by which it is asked for.
func exitCluster(e resolve.PassedExit) string {
	return resolve.SNI(registry.GatewayPort, "", e.Ref.Host())
}

// exitResources are the clusters of the egress gateways that servers lead to, each once.
func exitResources(servers []resolve.IngressServer, connect time.Duration) (out []*resource.Resource) {
	seen := map[registry.Ref]bool{}
	for _, s := range servers {
		for _, e := range s.Exits {
			if seen[e.Ref] {
				continue
			}
			seen[e.Ref] = true
			name := exitCluster(e)
			c := envoy.WithConnectTimeout(envoy.EDSCluster(name, envoy.Metadata(wire.RoleMesh, envoy.ObjectRef(e.By))), connect)
			out = append(out, envoy.SealCluster(c), farend.SealLoadAssignment(name, e.Port, farend.SingleGroup(unmarked(e.Endpoints))))
		}
	}
	return out
}

// unmarked are endpoints to which TLS passes as it is.
func unmarked(list []registry.Endpoint) []registry.Endpoint {
	out := slices.Clone(list)
	for i := range out {
		out[i].Proxied = false
	}
	return out
}

// BackendAndPassthrough is a host that routes lead to, and that mutual TLS is passed on to.
type BackendAndPassthrough struct {
	Target Backend
	Passed SNIPassthrough
}

// Part is what both are.
func (b *BackendAndPassthrough) Part() *part.Part {
	return b.Target.Part().With(b.Passed.Part().Resources)
}

// Endpoints are those of both's clusters.
func (b *BackendAndPassthrough) Endpoints(list []registry.Endpoint) []*resource.Resource {
	return append(b.Target.Endpoints(list), b.Passed.Endpoints(list)...)
}
