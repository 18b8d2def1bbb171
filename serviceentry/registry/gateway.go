package registry

import (
	"maps"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// Gateway is a Gateway object: which gateways lead to which hosts, and, of ingress gateways, what they open for that.
type Gateway struct {
	Key      config.Key
	Revision string
	Created  time.Time
	Selector map[string]string // of the gateway's pods; empty: all
	Servers  []GatewayServer   // its own
	Sets     []*setServers     // of the Gateway API's: those of its ListenerSets, in order of precedence
	// Shows is what its gateways show to backends that take TLS; nil for nothing.
	Shows *BackendClientCertificate
	Hash  uint64

	listeners *gatewayapi.Opened // what Servers and Sets are made from
	datagrams int                // how many ports for UDP it opens
}

// GatewayServer is one of its servers.
type GatewayServer struct {
	Port     uint32
	Protocol Protocol
	// Opaque says that what comes is not read: TLS that is passed on, TCP.
	Opaque bool
	Hosts  []HostFilter // a namespace is that of the VirtualServices which may be bound
	// What an ingress gateway makes of it.
	Serves ServerKind
	Why    string // it does not serve it
	Shut   string // it opens it, and closes all that comes
	Name   string // of its port
	// Redirect says that requests have to come by TLS, and are told so.
	Redirect bool
	TLS      *ServerTLS // where it ends TLS
	// Ref is how routes name it, where it is a listener of the Gateway API's; "" otherwise.
	Ref string
	// Alone says that its hosts are nobody else's of the Gateway, though another's pattern covers them, and that its routes of several
	// objects are one list, as the Gateway API has it.
	Alone bool
}

// refs are the names by which routes are for it.
func (g *Gateway) refs() []string {
	if g.Key.Kind != config.KindKubeGateway {
		return []string{g.Key.Namespace + "/" + g.Key.Name}
	}
	return refsOf(g.Servers)
}

// refsOf are the names by which routes are for listeners.
func refsOf(servers []GatewayServer) []string {
	out := make([]string, len(servers))
	for i := range servers {
		out[i] = servers[i].Ref
	}
	return out
}

// serversOf are the servers that routes name so.
func (b *batch) serversOf(ref string) []GatewayServer {
	s := b.next
	if key, _, of := gatewayapi.ParseRef(ref); of {
		var servers []GatewayServer
		if set, of := gatewayapi.SetOf(ref); of {
			if is, counts := b.setServers.Get(set.String()); counts {
				servers = is.servers
			}
		} else if g := s.gateways[key]; g != nil {
			servers = g.Servers
		}
		if i := slices.IndexFunc(servers, func(x GatewayServer) bool { return x.Ref == ref }); i >= 0 {
			return servers[i : i+1]
		}
		return nil
	}
	ns, name, _ := strings.Cut(ref, "/")
	if g := s.gateways[config.Key{Kind: config.KindGateway, Namespace: ns, Name: name}]; g != nil {
		return g.Servers
	}
	return nil
}

// gatewayService is what Istio writes on Gateways that it makes of the Gateway API's, which are read themselves here: whose pods they are for, by
// Services, and not by their selector.
const gatewayService = "internal.istio.io/gateway-service"

func fromGateway(o *config.Object, spec *networking.Gateway) *Gateway {
	g := &Gateway{Key: o.Key, Revision: o.Revision, Created: o.Created, Selector: spec.Selector, Hash: o.Hash}
	for _, s := range spec.Servers {
		server := GatewayServer{Port: s.GetPort().GetNumber(), Protocol: ParseProtocol(s.GetPort().GetProtocol())}
		mode := s.GetTls().GetMode()
		passes := s.GetTls() == nil || mode == networking.ServerTLSSettings_PASSTHROUGH || mode == networking.ServerTLSSettings_AUTO_PASSTHROUGH
		server.Opaque = server.Protocol == TCP || (server.Protocol == TLS && (passes || strings.EqualFold(s.GetPort().GetProtocol(), "TLS")))
		for _, h := range s.Hosts {
			f := hostFilter(h)
			if f.Namespace == "." {
				f.Namespace = o.Namespace
			}
			server.Hosts = append(server.Hosts, f)
		}
		server.open(s)
		if services, of := o.Annotations[gatewayService]; of {
			server.Serves, server.Why = NotServed, "metadata.annotations: "+gatewayService+": "+services+": Istio's own word to its gateways"
		}
		g.Servers = append(g.Servers, server)
	}
	return g
}

// ServersOf are the servers of a Gateway of Istio's.
func ServersOf(o *config.Object) []GatewayServer {
	return fromGateway(o, o.Spec.(*networking.Gateway)).Servers
}

// Lets says whether VirtualServices of a namespace may lead something of a host, or below a pattern, from the server.
func (s *GatewayServer) Lets(ns, host string) bool { return len(letsOf(s.Hosts, ns, host)) > 0 }

// has says whether VirtualServices of a namespace may lead from the server to a host.
func (s GatewayServer) has(ns, host string) bool {
	return slices.ContainsFunc(s.Hosts, func(f HostFilter) bool { return (f.Namespace == "*" || f.Namespace == ns) && Covers(f.Host, host) })
}

// Lets says whether VirtualServices of a namespace may lead from the Gateway to a host.
func (g *Gateway) Lets(ns, host string) bool {
	return slices.ContainsFunc(g.Servers, func(s GatewayServer) bool { return s.has(ns, host) })
}

// Ports are those at which VirtualServices of a namespace lead from the Gateway to a host, for what is read there
// (requests) or for what is not.
func (g *Gateway) Ports(ns, host string, opaque bool) (out []uint32) {
	for _, s := range g.Servers {
		if s.Opaque == opaque && s.has(ns, host) && !slices.Contains(out, s.Port) {
			out = append(out, s.Port)
		}
	}
	slices.Sort(out)
	return out
}

// Selects says whether the Gateway is about the pods of a Service, as far as its own selector tells what they carry.
func (g *Gateway) Selects(k *KubeService) bool {
	return len(k.Selector) > 0 && selects(g.Selector, k.Selector)
}

// Gateway finds a Gateway object; nil when there is none.
func (s *Snapshot) Gateway(key config.Key) *Gateway { return s.gateways[key] }

// GatewaysSelecting gives Istio's Gateway objects that are about the pods of a Service, in order of their names.
func (s *Snapshot) GatewaysSelecting(ref Ref) (out []*Gateway) {
	k, ok := s.KubeService(ref)
	if !ok {
		return nil
	}
	for _, g := range s.gateways {
		if g.Key.Kind == config.KindGateway && g.Selects(k) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(x, y *Gateway) int { return x.Key.Compare(y.Key) })
	return out
}

// setGateway replaces or removes a Gateway, and touches the hosts whose VirtualServices are for it, and the names that ingress
// gateways are asked for by it.
func (b *batch) setGateway(c config.Change) {
	b.unseen = true
	if b.next.gateways = maps.Clone(b.next.gateways); b.next.gateways == nil {
		b.next.gateways = map[config.Key]*Gateway{}
	}
	var g *Gateway
	if c.Object != nil {
		g = fromGateway(c.Object, c.Object.Spec.(*networking.Gateway))
	}
	g.countDatagrams()
	b.putGateway(c.Key, g)
}

// shows is the certificate that its pods show to Services; the zero value for none.
func (g *Gateway) shows() BackendClientCertificate {
	if g == nil || g.Shows == nil {
		return BackendClientCertificate{}
	}
	return *g.Shows
}

// putGateway replaces one, or takes it out; its names are those of both.
func (b *batch) putGateway(key config.Key, is *Gateway) {
	was := b.next.gateways[key]
	if was.shows() != is.shows() {
		b.touchSecured()
	}
	b.touchServed(was)
	b.touchBound(was)
	b.noteGatewayHosts(was, false)
	b.noteGatewayHosts(is, true)
	if is == nil {
		delete(b.next.gateways, key)
	} else {
		b.next.gateways[key] = is
	}
	b.touchServed(is)
	b.touchBound(is)
	b.noteSelected(was)
	b.noteSelected(is)
}

// touchSelecting marks the hosts that are led from Gateways which were or are about a Service, and the names that those serve.
func (b *batch) touchSelecting(was, is *KubeService) {
	for _, g := range b.next.gateways {
		selected, selects := was != nil && g.Selects(was), is != nil && g.Selects(is)
		if selected != selects {
			b.touchBound(g)
		}
		if selected || selects {
			b.touchServed(g)
		}
	}
}
