package admission

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// registeredPort is a port by which somebody registers a host.
type registeredPort struct {
	number   uint32
	protocol registry.Protocol // as proxies read it
}

// registration is what is known of a host's ports and addresses.
type registration struct {
	ports     []registeredPort // in order of number; several of one where registrations differ
	addresses []netip.Prefix
	anywhere  bool // it may be found at other addresses, too
	several   bool // more than one object registers it
}

// registrationOf is nil where it is not known what a host's ports are: nobody registers it itself, or a Service does that is another name for one.
func (w *world) registrationOf(n host.Name) *registration {
	out := &registration{several: len(w.hosts[n]) > 1 || len(w.hosts[n]) > 0 && w.services[n]}
	for p := range w.portsRegistered(n) {
		out.add(p.number, p.protocol)
	}
	for _, e := range w.hosts[n] {
		out.at(e.spec.Addresses)
	}
	if svc := w.specs[n]; svc != nil {
		if svc.Spec.Type == corev1.ServiceTypeExternalName {
			return nil
		}
		ips := svc.Spec.ClusterIPs
		if len(ips) == 0 {
			ips = []string{svc.Spec.ClusterIP}
		}
		out.at(ips)
	}
	if len(out.ports) == 0 {
		return nil
	}
	slices.SortStableFunc(out.ports, func(a, b registeredPort) int { return int(a.number) - int(b.number) })
	return out
}

// portRegistered is a port as one object registers it.
type portRegistered struct {
	registeredPort
	target uint32 // 0: its own number, or one that each pod has for it
}

// portsRegistered goes through the ports by which objects register exactly a host.
func (w *world) portsRegistered(n host.Name) iter.Seq[portRegistered] {
	return func(yield func(portRegistered) bool) {
		for _, e := range w.hosts[n] {
			for _, p := range e.spec.Ports {
				if !yield(portRegistered{registeredPort{p.GetNumber(), w.protocolRead(p.GetNumber(), registry.ParseProtocol(p.GetProtocol()))}, p.GetTargetPort()}) {
					return
				}
			}
		}
		if svc := w.specs[n]; svc != nil {
			for _, p := range svc.Spec.Ports {
				if !yield(portRegistered{registeredPort{uint32(p.Port), w.protocolRead(uint32(p.Port), registry.KubeProtocol(p))}, uint32(p.TargetPort.IntVal)}) {
					return
				}
			}
		}
	}
}

// protocolRead is a port's protocol by the mesh's settings.
func (w *world) protocolRead(number uint32, p registry.Protocol) registry.Protocol {
	if p != registry.UDP && slices.Contains(w.cfg.TCPPorts, number) {
		return registry.TCP
	}
	return p
}

func (g *registration) add(number uint32, p registry.Protocol) {
	if as := (registeredPort{number, p}); !slices.Contains(g.ports, as) {
		g.ports = append(g.ports, as)
	}
}

func (g *registration) at(addresses []string) {
	known := 0
	for _, a := range addresses {
		if p, err := authz.Range(a); err == nil {
			g.addresses, known = append(g.addresses, p), known+1
		}
	}
	g.anywhere = g.anywhere || known == 0
}

// takes says whether a port's protocol is one that routes of a kind are for.
type takes func(registry.Protocol) bool

var (
	takesRequests takes = registry.Protocol.IsHTTP
	takesTLS      takes = func(p registry.Protocol) bool { return p == registry.TLS }
	takesTCP      takes = func(p registry.Protocol) bool { return p == registry.TCP }
)

// routePlace is where one match of a route counts.
type routePlace struct {
	port      uint32
	gateways  []string
	subnets   []string
	namespace string            // sourceNamespace
	labels    map[string]string // sourceLabels
	authority *networking.StringMatch
}

// portedRoute is a route as far as ports are concerned.
type portedRoute struct {
	field        string
	kind         string // as users call what it is for
	protocol     string // of the ports that it is for
	takes        takes
	places       []routePlace // of its matches; one that names nothing stands for none
	destinations []portedDestination
}

type portedDestination struct {
	field string
	to    *networking.Destination
	so    string // what becomes of what is led to a port that is not there
}

// orNothing is what becomes of what is led there, in other words where it is no copy.
func (d portedDestination) orNothing(led string) string {
	if d.so == noCopy {
		return noCopy
	}
	return led
}

// checkRoutePorts warns of routes and matches for ports that the hosts do not have, or that speak something else, of subnets in which none of the hosts is, and of destinations
// that lack the port to which something is led.
func (w *world) checkRoutePorts(r *report, v *networking.VirtualService) {
	routes := portedRoutes(v)
	led, bound := w.ledPorts(r.of.Namespace, v), w.boundPlaces(r.of.Namespace, v, routes)
	for _, x := range routes {
		w.judgeBoundPlaces(r, bound, v, &x)
		asked := w.judgePlaces(r, led, v, &x)
		for _, d := range x.destinations {
			w.judgePort(r, d, asked)
		}
	}
}

// ledPorts is all that the hosts of a VirtualService are registered with; nil where that is not known of one of them.
func (w *world) ledPorts(namespace string, v *networking.VirtualService) *registration {
	if len(v.Hosts) == 0 {
		return nil
	}
	all := &registration{}
	for _, h := range v.Hosts {
		n := w.fullName(h, namespace)
		g := w.registrationOf(n)
		if g == nil || n.IsWildcard() { // other hosts may be below a pattern
			return nil
		}
		for _, p := range g.ports {
			all.add(p.number, p.protocol)
		}
		all.addresses, all.anywhere = append(all.addresses, g.addresses...), all.anywhere || g.anywhere
	}
	slices.SortStableFunc(all.ports, func(a, b registeredPort) int { return int(a.number) - int(b.number) })
	return all
}

// judgePlaces warns of where a route counts, and gives the ports for which something is led by it in the mesh; nil where they are not known.
func (w *world) judgePlaces(r *report, led *registration, v *networking.VirtualService, x *portedRoute) (asked []uint32) {
	if led == nil {
		return nil
	}
	meshOnly, lacks := true, false
	for j, m := range x.places {
		gateways := m.gateways
		if len(gateways) == 0 {
			gateways = v.Gateways
		}
		if slices.ContainsFunc(route.Gateways(gateways, r.of.Namespace), func(g string) bool { return g != route.Mesh }) {
			meshOnly = false
			continue
		}
		of := led.ports
		if m.port != 0 {
			of = slices.DeleteFunc(slices.Clone(of), func(p registeredPort) bool { return p.number != m.port })
		}
		if len(of) == 0 {
			lacks = true
			r.warn(at(x.field, "match", j, "port"), m.port, "none of spec.hosts is registered with this port, so nothing is meant by the match", led.fixNumber())
			continue
		}
		if len(m.subnets) > 0 && !led.within(m.subnets) {
			r.warn(at(x.field, "match", j, "destinationSubnets"), strings.Join(m.subnets, ", "), "none of spec.hosts is registered with an address in there, so nothing is meant by the match",
				"write the address into the host's ServiceEntry (spec.addresses), or mend the subnet")
		}
		for _, p := range of {
			if x.takes(p.protocol) && !slices.Contains(asked, p.number) {
				asked = append(asked, p.number)
			}
		}
	}
	if !meshOnly {
		return nil
	}
	if len(asked) == 0 && !lacks {
		r.warn(x.field, nil, fmt.Sprintf("it is for %s, which ports of %s take, and the hosts have none of these here (%s), so nobody is led by it", x.kind, x.protocol, led), fixProtocol)
	}
	return asked
}

const fixProtocol = "write it into http, tls or tcp, as the port's protocol says, or mend the protocol"

// judgePort warns of a destination that lacks the port to which something is led. asked are the ports for which that is, where they are known.
func (w *world) judgePort(r *report, d portedDestination, asked []uint32) {
	n := w.fullName(d.to.GetHost(), r.of.Namespace)
	g := w.registrationOf(n)
	if g == nil || w.isGateway(n) { // of a gateway's Service the port means nothing
		return
	}
	if number := d.to.GetPort().GetNumber(); number != 0 {
		if !g.has(number) {
			r.warn(at(d.field, "port.number"), number, fmt.Sprintf("%s is not registered with this port, so %s", n, d.so), g.fixNumber())
		}
		return
	}
	if g.several || len(g.ports) == 1 {
		return
	}
	var missing []string
	for _, p := range asked {
		if !g.has(p) {
			missing = append(missing, fmt.Sprint(p))
		}
	}
	if len(missing) > 0 {
		r.warn(at(d.field, "port"), nil, fmt.Sprintf("%s has several ports, and not the one that is asked for (%s), so %s", n, strings.Join(missing, ", "), d.so), "name one of "+g.numbers()+" (port.number)")
	}
}

// isGateway says whether a host is the Service of an egress gateway, or of pods that a Gateway selects.
func (w *world) isGateway(n host.Name) bool {
	if w.gatewayHosts == nil {
		w.gatewayHosts = map[host.Name]bool{host.Name(registry.Ref(w.cfg.DefaultGateway).Host()): true}
		for _, s := range slices.Concat(w.exits(), w.ingresses()) {
			w.gatewayHosts[host.Name(registry.Ref{Namespace: s.namespace, Name: s.name}.Host())] = true
		}
	}
	return w.gatewayHosts[n]
}

func (g *registration) has(number uint32) bool {
	return slices.ContainsFunc(g.ports, func(p registeredPort) bool { return p.number == number && p.protocol != registry.UDP })
}

// within says whether the hosts may be found at an address in one of the subnets.
func (g *registration) within(subnets []string) bool {
	return g.anywhere || slices.ContainsFunc(subnets, func(text string) bool {
		p, err := authz.Range(text)
		return err != nil || slices.ContainsFunc(g.addresses, p.Overlaps)
	})
}

const portsShown = 8

// String lists ports with their protocols: "80 HTTP, 443 TLS".
func (g *registration) String() string {
	return g.list(func(p registeredPort) string { return strconv.Itoa(int(p.number)) + " " + string(p.protocol) })
}

// numbers lists the numbers of those that anything is led to.
func (g *registration) numbers() string {
	led := registration{ports: slices.DeleteFunc(slices.Clone(g.ports), func(p registeredPort) bool { return p.protocol == registry.UDP })}
	return led.list(func(p registeredPort) string { return strconv.Itoa(int(p.number)) })
}

func (g *registration) fixNumber() string {
	if some := g.numbers(); some != "" {
		return "write one of " + some + ", or register the port"
	}
	return "register the port"
}

func (g *registration) list(word func(registeredPort) string) string {
	var out []string
	for _, p := range g.ports {
		if text := word(p); len(out) == 0 || out[len(out)-1] != text {
			out = append(out, text)
		}
	}
	if more := len(out) - portsShown; more > 0 {
		out = append(out[:portsShown], fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}
