package admission

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// What leaves the mesh in plain text: requests that no proxy on their way puts into TLS.

// checkPlaintext warns, port by port, of HTTP that nobody encrypts on its way out: of each port by the first of the hosts for which it is so.
func (w *world) checkPlaintext(r *report, s *networking.ServiceEntry) {
	if s.Location != networking.ServiceEntry_MESH_EXTERNAL {
		return
	}
	said := map[uint32]bool{}
	for _, svc := range registry.FromEntry(&r.of, s, w.namespaces[r.of.Namespace].Annotations[GatewayAnnotation], &w.cfg) {
		if !slices.ContainsFunc(svc.Ports, func(p registry.Port) bool { return p.Protocol.IsHTTP() }) {
			return // which all its hosts have
		}
		rules := slices.Collect(w.rulesFor(host.Name(svc.Host)))
		for _, port := range svc.Ports {
			if said[port.Number] || !port.Protocol.IsHTTP() {
				continue
			}
			if why, fix := w.leavesPlain(svc, port, rules); fix != "" {
				said[port.Number] = true
				i := slices.IndexFunc(s.Ports, func(p *networking.ServicePort) bool { return p.Number == port.Number })
				r.warn(at("spec.ports", i), port.Number, fmt.Sprintf("requests to %s leave the mesh in plain text", svc.Host)+why, fix)
			}
		}
	}
}

// leavesPlain says why nobody speaks TLS for the requests to a port of a host outside, and what to do; no fix where somebody does, or may, or where it is meant. Sidecars do
// by a DestinationRule alone; what egress gateways do by themselves is registry.Origination's to say.
func (w *world) leavesPlain(svc *registry.Service, port registry.Port, rules []*networking.DestinationRule) (why, fix string) {
	n := host.Name(svc.Host)
	if slices.ContainsFunc(rules, func(d *networking.DestinationRule) bool { return originatesTLS(tlsFor(d, port.Number)) }) || w.disabledItself(n, port.Number) || w.ledElsewhere(n, port.Number) {
		return "", ""
	}
	const byRule = "a DestinationRule for the host with trafficPolicy.tls (mode: SIMPLE)"
	if svc.Exit.IsZero() {
		if fix = "write " + byRule; port.TargetPort != 443 {
			fix = "write targetPort: 443 at the port, if the host takes TLS there, and " + byRule
		}
		return ": they go straight from the pods, where proxies speak TLS by a DestinationRule alone", fix + "; or let them leave by an egress gateway"
	}
	if len(w.rules[n]) == 0 {
		if by, spec := w.widerRule(svc.Namespace, n); by != nil && tlsFor(spec, port.Number) != nil {
			return fmt.Sprintf(": %s (%s) says so for the port", by.Key, spec.Host), "write " + byRule + ", or with mode: DISABLE to say that it is meant"
		}
	}
	switch tls, _ := registry.Origination(svc, port, nil); {
	case tls != nil:
		return "", ""
	case svc.Wildcard() && port.Number != 80:
		return ": what is sent to a pattern's hosts keeps its port, which is named for plain HTTP", "write " + byRule + ", if the hosts take TLS there"
	case port.Explicit:
		return fmt.Sprintf(": port %d is named for them (targetPort), which is not known to take TLS", port.TargetPort), "write targetPort: 443, if the host takes TLS there, or " + byRule
	case w.takesTLSBeside(svc.Namespace, n):
		return "", "" // another entry's port may be of the same host
	}
	return "", "add the port {number: 443, name: https, protocol: HTTPS}, so that the egress gateway speaks TLS to the host"
}

// disabledItself says whether a rule for the host itself has mode DISABLE for a port.
func (w *world) disabledItself(n host.Name, port uint32) bool {
	return slices.ContainsFunc(w.rules[n], func(o *config.Object) bool {
		t := tlsFor(o.Spec.(*networking.DestinationRule), port)
		return t != nil && t.Mode == networking.ClientTLSSettings_DISABLE
	})
}

func originatesTLS(t *networking.ClientTLSSettings) bool {
	return t != nil && t.Mode != networking.ClientTLSSettings_DISABLE
}

// ledElsewhere says whether routes may take requests to a port of a host to another one, or answer them.
func (w *world) ledElsewhere(n host.Name, port uint32) bool {
	if w.ledBy == nil {
		w.ledBy = map[host.Name][]*networking.VirtualService{}
		for _, o := range w.virtual {
			v := o.Spec.(*networking.VirtualService)
			for _, h := range v.Hosts {
				led := w.fullName(h, o.Namespace)
				w.ledBy[led] = append(w.ledBy[led], v)
			}
		}
	}
	for _, led := range append([]host.Name{n, host.Any}, parents(n)...) {
		for _, v := range w.ledBy[led] {
			if slices.ContainsFunc(v.Http, func(h *networking.HTTPRoute) bool { return leavesPort(h, n, port) }) {
				return true
			}
		}
	}
	return false
}

// leavesPort says whether a route leads to something else than a port of a host.
func leavesPort(h *networking.HTTPRoute, n host.Name, port uint32) bool {
	return h.Redirect != nil || h.DirectResponse != nil || h.Delegate != nil || slices.ContainsFunc(h.Route, func(d *networking.HTTPRouteDestination) bool {
		to := d.GetDestination()
		number := to.GetPort().GetNumber()
		return host.Name(registry.CanonicalHost(to.GetHost())) != n || number != 0 && number != port
	})
}

// takesTLSBeside says whether an entry of a namespace registers a port of TLS of a host outside.
func (w *world) takesTLSBeside(ns string, n host.Name) bool {
	if w.securedIn == nil {
		w.securedIn = map[string]map[host.Name]bool{}
		for _, e := range w.entries {
			if !e.external() || !slices.ContainsFunc(e.spec.Ports, func(p *networking.ServicePort) bool { return registry.ParseProtocol(p.Protocol) == registry.TLS }) {
				continue
			}
			in := w.securedIn[e.object.Namespace]
			if in == nil {
				in = map[host.Name]bool{}
				w.securedIn[e.object.Namespace] = in
			}
			for _, name := range e.names {
				in[name] = true
			}
		}
	}
	return w.securedIn[ns][n]
}
