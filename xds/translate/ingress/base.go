package ingress

import (
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// Inputs is what an ingress gateway's base is made from: what Gateway objects open, and never which names are asked for.
type Inputs struct {
	Servers     []resolve.IngressServer
	Mesh        mesh.Ingress
	IPv6        bool
	Hosts       envoy.InlineHosts
	DNSDefaults name.Defaults
	Secrets     []farend.Material
	Connect     time.Duration // the mesh's connectTimeout
}

// Resources are everything of an ingress gateway that is not about single names, or hosts of the mesh.
func (in Inputs) Resources() []*resource.Resource {
	out := append(farend.SealSecrets(in.Secrets), envoy.SealCluster(envoy.BlackHole()))
	ports := in.ports()
	tables := map[resolve.IngressTable]bool{}
	asked := false
	for _, p := range ports {
		l := p.listener(in)
		out = append(out, envoy.Seal(resource.Listener, l.Name, l))
		if q := p.http3(in); q != nil {
			out = append(out, envoy.Seal(resource.Listener, q.Name, q))
		}
		for _, s := range p.servers {
			if tables[s.Table] {
				continue
			}
			tables[s.Table] = true
			table := tableName(s.Table)
			if s.Serves.ReadsRequests() {
				rows := envoy.IngressTable(table, in.Hosts)
				if at := p.advertised(s.Table); at != 0 {
					envoy.AdvertiseHTTP3(rows, at)
				}
				out = append(out, envoy.Seal(resource.Route, table, rows))
				out = append(out, envoy.PlaceholderRow(table, in.Hosts)...)
				if s.Others {
					out = append(out, others(table))
				}
				continue
			}
			asked = true
			out = append(out, envoy.IngressQuestionListener(table, in.Hosts)...)
		}
	}
	if asked {
		out = append(out, envoy.QuestionListeners()...)
	}
	out = append(out, exitResources(in.Servers, in.Connect)...)
	return append(out, part.SealDNSDefaults(in.DNSDefaults))
}

// tableName is the name of a table; Istio's where it has one.
func tableName(t resolve.IngressTable) string {
	kind := map[registry.ServerKind]string{
		registry.ServesRequests: wire.TableRequests, registry.ServesTLSRequests: wire.TableTLSRequests, registry.PassesTLS: wire.TableTLS, registry.ServesBytes: wire.TableTCP, registry.PassesMesh: wire.TableMesh,
	}[t.Serves]
	name := wire.IngressTable(kind, t.Listen)
	if t.Own != "" {
		name += "." + t.Own
	}
	return name
}

// port is what is opened at one.
type port struct {
	number  uint32
	servers []resolve.IngressServer
}

// ports are those of the servers, in order.
func (in Inputs) ports() (out []port) {
	for _, s := range in.Servers {
		if s.Serves == registry.ServesDatagrams { // its listener is its name's (Name.datagrams)
			continue
		}
		i := slices.IndexFunc(out, func(p port) bool { return p.number == s.Listen })
		if i < 0 {
			i, out = len(out), append(out, port{number: s.Listen})
		}
		out[i].servers = append(out[i].servers, s)
	}
	slices.SortFunc(out, func(a, b port) int { return int(a.number) - int(b.number) })
	return out
}

// listener takes a port's connections. What is said first on it is of one kind: requests, TLS, or whatever comes.
func (p port) listener(in Inputs) *listenerv3.Listener {
	l := envoy.BindAll(&listenerv3.Listener{Name: "0.0.0.0_" + wire.RouteName(p.number), TrafficDirection: corev3.TrafficDirection_OUTBOUND}, p.number, in.IPv6)
	if in.Mesh.ProxyProtocol {
		l.ListenerFilters = append(l.ListenerFilters, envoy.PROXYProtocol())
	}
	table := tableName(p.servers[0].Table)
	switch p.servers[0].Serves.Family() {
	case registry.ServesRequests:
		l.ListenerFilters = append(l.ListenerFilters, envoy.InspectTLS()) // which waits for a first byte: a connection manager waits for it as long as it keeps those that rest
		l.FilterChains = []*listenerv3.FilterChain{envoy.FilterChain(table, nil, envoy.IngressHCM(table, in.Mesh))}
		envoy.WithFirstByteTimeout(l)
	case registry.ServesBytes:
		l.FilterChains = []*listenerv3.FilterChain{envoy.FilterChain(table, nil, envoy.IngressTCPFilters(table, wire.IngressAny+":%DOWNSTREAM_LOCAL_PORT%", envoy.KindTCP, wire.IngressTCP, false)...)}
	default:
		l.ListenerFilters = append(l.ListenerFilters, envoy.InspectTLS())
		shared := false
		for _, s := range p.servers {
			switch {
			case !s.OnDemand:
				l.FilterChains = append(l.FilterChains, tlsChains(s, in.Mesh)...)
			case !shared:
				shared = true
				l.FilterChains = append(l.FilterChains, onDemandChain(s, in.Mesh))
				l.AccessLog = envoy.RefusedHandshakes(wire.IngressTLS) // what has no certificate ends before any filter
			}
		}
		l.FilterChains = append(l.FilterChains, p.exitChains()...)
		envoy.WithFirstByteTimeout(l)
		// what names nobody's host, or is no TLS, ends here, and is told
		closed := envoy.ClosingTCPProxy()
		closed.Log = wire.IngressTLS
		l.DefaultFilterChain = envoy.FilterChain("nobody", nil, closed.Filter())
	}
	if in.Mesh.ProxyProtocol {
		envoy.WithFirstByteTimeout(l)
	}
	return l
}

// http3 takes what comes to a port by QUIC, where servers speak HTTP/3: each has a chain as for TCP, and the same table. What has none is not answered.
func (p port) http3(in Inputs) *listenerv3.Listener {
	var chains []*listenerv3.FilterChain
	for _, s := range p.servers {
		if s.HTTP3 == 0 {
			continue
		}
		for _, c := range tlsChains(s, in.Mesh) {
			chains = append(chains, envoy.HTTP3Chain(c.Name, tableName(s.Table), c.FilterChainMatch.ServerNames, serverTLS(s), in.Mesh))
		}
	}
	if len(chains) == 0 {
		return nil
	}
	return envoy.HTTP3Listener(p.number, in.IPv6, chains...)
}

// advertised is the port at which a table's names are asked for by HTTP/3; 0 where none is.
func (p port) advertised(t resolve.IngressTable) uint32 {
	for _, s := range p.servers {
		if s.Table == t && s.HTTP3 != 0 {
			return s.HTTP3
		}
	}
	return 0
}

// tlsChains are the chains of a server: of one that has names of its own beside "*" two, since a chain for all names is no other's rival for any.
func tlsChains(s resolve.IngressServer, m mesh.Ingress) []*listenerv3.FilterChain {
	names := slices.DeleteFunc(slices.Clone(s.Hosts), func(h string) bool { return h == "*" })
	if len(names) == 0 || len(names) == len(s.Hosts) {
		return []*listenerv3.FilterChain{tlsChain(s, m)}
	}
	all := s
	s.Hosts, all.Hosts = names, []string{"*"}
	named := tlsChain(s, m)
	named.Name += "/names"
	return []*listenerv3.FilterChain{tlsChain(all, m), named}
}

// tlsChain takes the TLS of a server's names. Gateway objects change seldom: a chain that comes or goes drains no other's connections.
func tlsChain(s resolve.IngressServer, m mesh.Ingress) *listenerv3.FilterChain {
	match := envoy.MatchTLS()
	if !slices.Contains(s.Hosts, "*") {
		match.ServerNames = s.Hosts
	}
	name := s.Gateway.Namespace + "/" + s.Gateway.Name + "/" + s.Field
	if s.Closed != "" {
		closed := envoy.ClosingTCPProxy()
		closed.Log, closed.Policy, closed.Revision = wire.IngressTLS, envoy.ObjectRef(s.Gateway), s.Revision
		return envoy.FilterChain(name, match, closed.Filter())
	}
	begins := !m.KeepSilent && s.Serves != registry.PassesMesh // by whose ports no requests come
	asks := func() []*listenerv3.Filter {
		return envoy.IngressTCPFilters(tableName(s.Table), "%REQUESTED_SERVER_NAME%:%DOWNSTREAM_LOCAL_PORT%", envoy.KindTLS, wire.IngressTLS, begins)
	}
	switch s.Serves {
	case registry.ServesTLSRequests:
		if s.TLS.Clients == registry.Unverified { // nobody behind may take what such a client shows, or says, for its name
			m.ClientCertificates = mesh.Sanitize
		}
		c := envoy.FilterChain(name, match, envoy.IngressHCM(tableName(s.Table), m))
		c.TransportSocket = endTLS(s, "h2", envoy.HTTP11)
		return envoy.WithHandshakeTimeout(c)
	case registry.ServesTLSBytes:
		c := envoy.FilterChain(name, match, asks()...)
		c.TransportSocket = endTLS(s)
		return envoy.WithHandshakeTimeout(c)
	case registry.PassesMesh:
		match.ApplicationProtocols = wire.MeshALPN // an app's own TLS has no business here
		return envoy.FilterChain(name, match, asks()...)
	default:
		return envoy.FilterChain(name, match, asks()...)
	}
}

// onDemandChain takes the TLS of all names that no other chain takes: the certificate for one is found when a client says it, or the connection is
// closed. It is the same whichever of its servers it is made from.
func onDemandChain(s resolve.IngressServer, m mesh.Ingress) *listenerv3.FilterChain {
	c := envoy.FilterChain(tableName(s.Table)+"/on-demand", envoy.MatchTLS(), envoy.NoteServerName(), envoy.IngressHCM(tableName(s.Table), m))
	c.TransportSocket = envoy.ServerTLS{OnDemand: true, ALPN: []string{"h2", envoy.HTTP11}}.Socket()
	return envoy.WithHandshakeTimeout(c)
}

// ServerName says which secret is shown for a host of the servers that share a chain.
func ServerName(host string, c resolve.Certificate) *resource.Resource {
	secret := ""
	if !c.Closed {
		secret = farend.PairName(c.Ref)
	}
	return envoy.Seal(resource.ServerName, ondemand.ServerName(host), wrapperspb.String(secret))
}

func endTLS(s resolve.IngressServer, alpn ...string) *corev3.TransportSocket {
	t := serverTLS(s)
	t.ALPN = alpn
	return t.Socket()
}

// serverTLS is how a server ends TLS.
func serverTLS(s resolve.IngressServer) envoy.ServerTLS {
	t := envoy.ServerTLS{Required: s.TLS.Clients == registry.Required, Unverified: s.TLS.Clients == registry.Unverified, SANs: s.TLS.SANs, SPKI: s.TLS.SPKI, Hash: s.TLS.Hash, Min: s.TLS.Min, Max: s.TLS.Max, Ciphers: s.TLS.Ciphers}
	for _, g := range s.Given {
		t.Certificates = append(t.Certificates, farend.PairName(g.Ref))
	}
	if s.Roots != nil {
		t.Roots = farend.RootsName(s.Roots.Ref)
	}
	return t
}
