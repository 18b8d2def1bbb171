package admission

import (
	"net/netip"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/host"
)

// The annotations by which Istio marks objects that it made of the Gateway API's: they may say a little more.
const (
	gatewaySemantics = "internal.istio.io/gateway-semantics"
	gatewayService   = "internal.istio.io/gateway-service"
	routeSemantics   = "internal.istio.io/route-semantics"
)

func (r *report) converted(annotation string) bool { return r.of.Annotations[annotation] == "gateway" }

func (r *report) gateway(g *networking.Gateway) {
	if !isLabel(r.of.Name) && !r.converted(gatewaySemantics) {
		r.reject("metadata.name", r.of.Name, "is no Gateway's name", "use letters, digits and hyphens, at most 63")
	}
	if len(g.Servers) == 0 {
		r.reject("spec.servers", nil, "there is no server", "write at least one, with port and hosts")
	}
	if services, of := r.of.Annotations[gatewayService]; of {
		r.warn(strict.Join("metadata.annotations", gatewayService), services, "is Istio's own word to its gateways: nothing is opened by the Gateway", "remove it, and name the labels of the gateway's pods in spec.selector")
	} else if len(g.Selector) == 0 {
		r.warn("spec.selector", nil, "selects every gateway of the mesh", "name the labels of the gateway's pods, as in {istio: egressgateway}")
	}
	names := map[string]bool{}
	for i, s := range g.Servers {
		field := at("spec.servers", i)
		r.server(field, s)
		if s.Port == nil {
			continue
		}
		if names[s.Port.Name] {
			r.reject(at(field, "port.name"), s.Port.Name, "the name is there twice", "give each server's port its own name")
		}
		names[s.Port.Name] = true
	}
}

func (r *report) server(field string, s *networking.Server) {
	if len(s.Hosts) == 0 {
		r.reject(at(field, "hosts"), nil, "there is no host", `name at least one, or "*" for all`)
	}
	for i, h := range s.Hosts {
		r.namespacedHost(at(field, "hosts", i), h, true)
	}
	r.serverBind(field, s)
	if s.Port == nil {
		r.reject(at(field, "port"), nil, "it is missing", "write it, as in {number: 443, name: tls, protocol: TLS}")
		r.serverSettings(at(field, "tls"), s.Tls)
		return
	}
	// Number 0 stands for a Unix socket's.
	if s.Port.Number != 0 || !strings.HasPrefix(s.Bind, unixPrefix) {
		r.port(at(field, "port.number"), s.Port.Number)
	}
	if config.IsGatewayPort(s.Port.Number) {
		r.warn(at(field, "port.number"), s.Port.Number, "is a port of the gateway's own proxy or agent, so nothing is opened at it",
			"write another one, unless the gateway's Service leads this one to another port of its pods")
	}
	if s.Port.Name == "" {
		r.reject(at(field, "port.name"), nil, "the port has no name", `give it one, as in "tls"`)
	}
	protocol := r.protocol(at(field, "port.protocol"), s.Port.Protocol)
	if protocol == "" {
		r.reject(at(field, "port.protocol"), nil, "a gateway's server needs a protocol", "write HTTP, HTTPS, TLS, TCP, HTTP2 or GRPC")
	}
	if s.Port.TargetPort != 0 {
		r.reject(at(field, "port.targetPort"), s.Port.TargetPort, "is deprecated and has no effect", "remove it")
	}
	r.serverTLS(field, s, protocol)
}

func (r *report) serverBind(field string, s *networking.Server) {
	switch {
	case s.Bind == "":
	case strings.HasPrefix(s.Bind, unixPrefix):
		r.unixPath(at(field, "bind"), s.Bind)
		if n := s.GetPort().GetNumber(); n != 0 {
			r.reject(at(field, "port.number"), n, "a Unix socket has no port", "write 0")
		}
	default:
		r.bind(at(field, "bind"), s.Bind)
	}
}

// namespacedHost checks "NAMESPACE/HOST", which gateways also take without a namespace and with an IP address. Sidecars
// take "~" before a namespace for "all but", and for the hosts of no namespace.
func (r *report) namespacedHost(field, value string, gateway bool) {
	ns, name, ok := strings.Cut(value, "/")
	if !ok {
		if !gateway {
			r.reject(field, value, "names no namespace", `write NAMESPACE/HOST, as in "*/`+value+`" for every namespace or "./`+value+`" for its own`)
			return
		}
		name, ns = value, "*"
	}
	if !r.namespacePart(ns, gateway) {
		r.reject(field, value, "its part before the slash is no namespace", `write "*", "." or the name of a namespace`)
	}
	if _, err := netip.ParseAddr(name); err == nil && gateway {
		return
	}
	n, err := host.ParsePattern(name)
	switch {
	case err != nil:
		r.hostError(field, value, err)
	case n != host.Any && !strings.Contains(name, "."):
		r.reject(field, value, "short names are not allowed here", "write the full name, as in "+string(n)+".default.svc.cluster.local")
	}
}

func (r *report) namespacePart(ns string, gateway bool) bool {
	if gateway {
		return ns == "*" || ns == "." || isLabel(ns) || ns == "~" && r.converted(gatewaySemantics)
	}
	but, except := strings.CutPrefix(ns, "~")
	return ns == "*" || ns == "." || isLabel(ns) || except && (but == "" || but == "." || isLabel(but))
}
