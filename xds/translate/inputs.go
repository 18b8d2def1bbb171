package translate

import (
	"reflect"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/egressgateway"
	"github.com/sallyport/sallyport/xds/translate/node"
	"github.com/sallyport/sallyport/xds/translate/outbound"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// hostInputs is everything that a host's part is made from: the part is a function of it. It is also the key under which the
// part is remembered, as it is: nothing of it can be forgotten.
type hostInputs interface {
	Part() *part.Part
	// Endpoints are the resources of endpoints that are in the registry's table.
	Endpoints(list []registry.Endpoint) []*resource.Resource
}

// host makes, or remembers, one host's share of a class's view; nil when the class does not see it.
func (t *Translator) host(s *registry.Snapshot, c Class, host string) *part.Part {
	s = t.asOf(s, c, host)
	in := inputsOf(s, c, host)
	if in == nil {
		return nil
	}
	set := s.EndpointSet(strings.TrimPrefix(host, ledTo))
	for i := range t.memo[host] {
		if r := &t.memo[host][i]; same(r.from, in) {
			if r.set != set {
				r.set, r.part = set, peopled(in, r.bare, set)
			}
			return r.part
		}
	}
	bare := in.Part()
	p := peopled(in, bare, set)
	if len(t.memo[host]) >= mostRemembered {
		t.memo[host] = slices.Delete(t.memo[host], 0, 1)
	}
	t.memo[host] = append(t.memo[host], remembered{in, set, bare, p})
	return p
}

// mostRemembered is how much of a host is remembered. There are more kinds of it only where many Nodes, or labels, are told different
// things; those are made again when they are asked for.
const mostRemembered = 128

// peopled is a part with the endpoints of a set. The rest of it stays as it is, so that an endpoint which comes or goes costs the
// resource that lists it.
func peopled(in hostInputs, bare *part.Part, set *registry.EndpointSet) *part.Part {
	var list []registry.Endpoint
	if set != nil {
		list = set.List
	}
	return bare.With(in.Endpoints(list))
}

// same says whether equal parts are made from these. Services and rules are mostly the same values, which costs nothing.
func same(a, b hostInputs) bool { return reflect.DeepEqual(a, b) }

func inputsOf(s *registry.Snapshot, c Class, host string) hostInputs {
	if a, is := strings.CutPrefix(host, podAt); is {
		return podInputsOf(s, c, addressAt(a))
	}
	if c.Kind == Sidecar || c.Kind == Ambient {
		h, seen := c.sidecar(s).Host(host)
		switch {
		case !seen:
			return nil
		case c.Kind == Ambient:
			h = c.sidecar(s).Fronted(h)
			return &node.Host{Host: outbound.Host{SidecarHost: h, Trust: envoy.TrustsOf(s.Mesh), Pods: true}, IPv6: c.IPv6}
		default:
			return &outbound.Host{SidecarHost: h, Trust: envoy.TrustsOf(s.Mesh)}
		}
	}
	switch c.Kind {
	case Ingress:
		return ingressInputsOf(s, c, host)
	case Waypoint:
		return waypointInputsOf(s, c, host)
	}
	h, leaves := c.exit(s).Host(host)
	if !leaves {
		return nil
	}
	return &egressgateway.Host{ExitHost: h, Trust: envoy.TrustsOf(s.Mesh), OnDemand: c.OnDemand}
}

// sidecar is who a class of sidecars is.
func (c Class) sidecar(s *registry.Snapshot) resolve.Sidecar {
	who := resolve.SidecarIn(s, c.View, c.Scope, c.Selected, c.secretsAt()).At(c.near(s))
	if c.Kind == Ambient {
		return who.AtNode()
	}
	return who
}

// exit is what a class of gateways, or of forward proxies, is.
func (c Class) exit(s *registry.Snapshot) resolve.Exit {
	if c.Kind == Forward {
		return resolve.ForwardProxy(s, c.Namespace, c.secretsAt()).At(c.near(s))
	}
	return resolve.GatewayOf(s, c.Gateway, c.secretsAt()).At(c.near(s))
}

// near is where the class's proxies are.
func (c Class) near(s *registry.Snapshot) registry.ClientLocation {
	return s.ClientLocation(c.Network, c.Client)
}

func (c Class) secretsAt() registry.SecretAccess {
	if c.Plain {
		return registry.NoSecrets
	}
	return registry.GivesSecrets
}

// agentDefaults are what every proxy's agent is told, beside what is about names.
func agentDefaults(s *registry.Snapshot) name.Defaults {
	return name.Defaults{DenyUnrecorded: s.Mesh.Audit.WhenFull == mesh.Deny, NeverTrace: !s.Mesh.TraceProxies}
}

// sidecarDNSDefaults is what a pod's DNS does with them. Whom it asks is the pod's own business: the cluster's DNS knows the
// cluster's names, and the resolvers that gateways ask do not.
func sidecarDNSDefaults(s *registry.Snapshot, outside resolve.OutboundPolicy) name.Defaults {
	dns := s.Mesh.DNS
	r := agentDefaults(s)
	r.Rate, r.OddRate, r.AllowPrivate, r.KeepECH = dns.Rate, dns.OddRate, dns.AllowPrivate, dns.ECH == mesh.Keep
	if dns.Refuses(outside.AllowAny) {
		r.Refuse, r.Local, r.DecidedBy = true, append([]string{wire.ClusterDomain}, dns.Local...), envoy.ObjectRef(outside.By)
		if dns.Unregistered == mesh.Refuse {
			r.DecidedBy = meshPolicy(s)
		}
	}
	return r
}

// exitDNSDefaults is whom a gateway asks, and what may be inside. It resolves only what somebody registered.
// To the mesh's reserved addresses a gateway is led by no name either.
func exitDNSDefaults(s *registry.Snapshot, shared bool) name.Defaults {
	dns := s.Mesh.DNS
	r := agentDefaults(s)
	r.Upstreams, r.AllowPrivate = dns.Upstreams, dns.PrivateHosts()
	if shared {
		for _, addr := range s.ReservedAddresses() {
			r.Never = append(r.Never, addr.String())
		}
	}
	for _, f := range dns.Forward {
		r.Forward = append(r.Forward, name.Forward(f))
	}
	return r
}
