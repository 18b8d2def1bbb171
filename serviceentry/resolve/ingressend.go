package resolve

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// end finds a destination of a route as the gateway reaches it: a host of the mesh that both the namespace of the route's object and
// the gateway's see, and never a gateway, nor the control plane.
func (a Ingress) end(e registry.End) IngressDestination {
	svc := a.snap.Visible(e.Host, a.Namespace, nil)
	theirs := a.snap.Visible(e.Host, e.Namespace, nil)
	if svc == nil || theirs == nil || svc.Source != theirs.Source {
		return IngressDestination{Closed: "is no host that namespaces " + e.Namespace + " and " + a.Namespace + " both see", Fix: "name a Service, or export it to both"}
	}
	if why, fix := a.unfit(svc); why != "" {
		return IngressDestination{Closed: why, Fix: fix}
	}
	r, _ := a.reach(svc)
	return IngressDestination{ReachedDestination: r}
}

// unfit says why an ingress gateway does not lead to a registration, and what to do.
func (a Ingress) unfit(svc *registry.Service) (why, fix string) {
	ref, _ := kubeOf(svc.Host)
	switch {
	case svc.External:
		return "is outside of the mesh, and ingress gateways lead inside", "name a Service of the mesh"
	case svc.Wildcard():
		return "is a pattern", "name one host"
	case !svc.Tabled() && svc.Resolution != registry.Static:
		return "is looked up by name, or by the address that a client chose", "give it resolution STATIC and endpoints, or name a Service"
	case svc.Tabled() && a.snap.IsItself(a.Ingress, ref):
		return "is a gateway itself", "name the Service that is behind it"
	case a.snap.HasReservedAddress(svc):
		return "is a gateway of the mesh, or its control plane", "name a Service of an app"
	}
	return "", ""
}

// reach is how the gateway reaches a Service: by its waypoint, which is nil of one without, or straight.
func (a Ingress) reach(svc *registry.Service) (ReachedDestination, *WaypointHop) {
	if front, why := a.front(svc); front != nil {
		r := ReachedDestination{Service: svc, Fronted: true}
		if why != nil {
			r.Restrictions.Closed = closed(svc, *why)
		}
		return r, front
	}
	r := ReachedDestination{Service: svc, Rule: a.snap.SecuredRule(svc, a.snap.Rule(svc, a.Namespace, "").ForRequests(svc), a.shows())}
	r.Restrictions = a.snap.UpstreamRestrictions(svc, r.Rule, registry.Connector{Kind: registry.AtGateway, Namespace: a.Namespace, Secrets: a.secrets})
	return r, nil
}

// front is the waypoint by which the gateway goes to a Service that asks for it, nil without one, and why nothing goes there, where nothing does. What rules
// say of the Service counts there then, and not here.
func (a Ingress) front(svc *registry.Service) (*WaypointHop, *registry.ClosedPort) {
	use, has := a.snap.IngressWaypoint(svc)
	if !has {
		return nil, nil
	}
	front, why := frontBy(a.snap, a.near, svc, use)
	if why == nil && a.secrets == registry.NoSecrets {
		why = &registry.ClosedPort{By: svc.Source, Revision: svc.Revision, Why: "the waypoint " + use.Gateway.String() + " takes mutual TLS, and this gateway came without proof of who it is", Fix: "let the gateway's agent connect to the control plane by TLS"}
	}
	return front, why
}

// shows is what the gateway's Gateway of the Gateway API shows to backends; nil for nothing.
func (a Ingress) shows() *registry.BackendClientCertificate {
	name := a.PodLabels()[gatewayapi.GatewayLabel]
	if g := a.snap.Gateway(config.Key{Kind: config.KindKubeGateway, Namespace: a.Namespace, Name: name}); g != nil {
		return g.Shows
	}
	return nil
}

// to is a destination of what came for the row, which an object of a namespace names.
func (r *IngressRow) to(ns string, d route.Destination, kind Kind) WeightedDestination {
	end := r.Ends[registry.End{Namespace: ns, Host: d.Host}]
	by := Route{By: r.By[0].Key, Revision: r.By[0].Revision}
	t := WeightedDestination{ReachedDestination: &end.ReachedDestination, Subset: d.Subset}
	svc := end.Service
	if svc == nil {
		if d.Host == "" {
			end.Closed, end.Fix = noBackend, fixBackend
		}
		return t.close(by, d, end.Closed, end.Fix)
	}
	number := d.PortOf(numbersOf(svc), r.Port)
	if end.Fronted {
		return r.toFronted(t, by, d, number, kind)
	}
	if r.Serves == registry.ServesDatagrams {
		return r.toDatagrams(t, by, d, number)
	}
	port, ok := svc.Port(number)
	if !ok || port.Protocol == registry.UDP {
		return t.close(by, d, fmt.Sprintf("has no port %d for this", number), "name one that it is registered with")
	}
	t.Port = port
	if why, fix := t.subsetProblem(); why != "" {
		return t.close(by, d, why, fix)
	}
	tls := end.Rule.TLSFor(number)
	t.Untouched = r.Serves == registry.PassesTLS && tls.Always()
	if c, closed := end.Restrictions.Closed[number]; closed && (!t.Untouched || !t.Rule.ClosesFor(tls, c)) {
		t.Closed = &c
		return t
	}
	if !t.Untouched {
		t.Port = port.Within(tls)
	}
	if kind == Requests && port.Protocol == registry.TLS && !tls.Always() && (tls == nil || tls.Mode != registry.TLSDisable) {
		return t.close(by, d, fmt.Sprintf("takes TLS at port %d, which gateways speak for requests where a DestinationRule or a BackendTLSPolicy says so", number),
			"write a DestinationRule with trafficPolicy.tls, or a BackendTLSPolicy, for the Service, or name a port of plain HTTP")
	}
	return t
}

// toFronted is a destination that is reached through its waypoint, which reads what comes as the port is named.
func (r *IngressRow) toFronted(t WeightedDestination, by Route, d route.Destination, number uint32, kind Kind) WeightedDestination {
	port, ok := t.Service.Port(number)
	switch {
	case r.Serves == registry.ServesDatagrams:
		return t.close(by, d, "has a waypoint, by which nothing goes by UDP", "remove the label istio.io/ingress-use-waypoint, or write \"false\" for this Service")
	case !ok || port.Protocol == registry.UDP:
		return t.close(by, d, fmt.Sprintf("has no port %d for this", number), "name one that it is registered with")
	case d.Subset != "":
		return t.close(by, d, "has a waypoint, which tells its subsets apart, and nobody before it", "remove the subset, and let a route for the Service itself say it")
	case kind == Requests && port.Protocol == registry.TLS:
		return t.close(by, d, fmt.Sprintf("takes TLS at port %d, which its waypoint passes on as it is", number), "name a port of plain HTTP")
	}
	t.Port = port
	if c, closed := t.Restrictions.Closed[number]; closed {
		t.Closed = &c
	}
	return t
}

// toDatagrams is a destination of what came by UDP. Nobody says there who it is, and it is in no TLS.
func (r *IngressRow) toDatagrams(t WeightedDestination, by Route, d route.Destination, number uint32) WeightedDestination {
	if ns, name, policed := strings.Cut(r.Policed, "/"); policed {
		t.Closed = &registry.ClosedPort{
			By:  config.Key{Kind: config.KindAuthorizationPolicy, Namespace: ns, Name: name},
			Why: "what comes by UDP cannot be held to an AuthorizationPolicy that is for the gateway", Fix: "give the UDP listener a Gateway of its own, for which there is none",
		}
		return t
	}
	if r.Unrefusable {
		t.Closed = &registry.ClosedPort{
			By: by.By, Revision: by.Revision,
			Why: "what comes by UDP is not refused where there is no room for its records, as sallyport.audit.whenFull: deny wants it", Fix: "take it by TCP, or write whenFull: drop into the mesh settings",
		}
		return t
	}
	if c, closed := t.Restrictions.Datagrams(t.Rule); closed {
		t.Closed = &c
		return t
	}
	port, ok := t.Service.DatagramPort(number)
	if !ok {
		return t.close(by, d, fmt.Sprintf("has no port %d for UDP", number), "name one that it is registered with")
	}
	if tls := t.Rule.TLSFor(number); tls != nil && (tls.Mode == registry.TLSSimple || tls.Mode == registry.TLSMutual) && tls.By == nil {
		return t.close(by, d, fmt.Sprintf("takes TLS at port %d by its DestinationRule, which there is none of over UDP", number), "set tls for its other ports only (portLevelSettings)")
	}
	t.Port = port
	return t
}

// IngressTarget is a host of the mesh that an ingress gateway leads to.
type IngressTarget struct {
	ReachedDestination
	MeshTLS
	Connect time.Duration           // the mesh's connectTimeout
	Near    registry.ClientLocation // from where it is connected to
	// Untouched says that TLS which passes may be led there.
	Untouched bool
	// UDP says that what comes by UDP may be led there.
	UDP   bool
	Front *WaypointHop // the waypoint that it is reached through; nil without one
	// Refused are addresses that the gateway does not connect to: its own pods', the mesh's other reserved ones.
	Refused []netip.Addr
}

// Target gathers what counts for a host of the registry; false where the gateway does not lead there.
func (a Ingress) Target(host string) (IngressTarget, bool) {
	if !a.snap.LedFrom(a.Ingress, host) {
		return IngressTarget{}, false
	}
	svc := a.snap.Visible(host, a.Namespace, nil)
	if svc == nil {
		return IngressTarget{}, false
	}
	if why, _ := a.unfit(svc); why != "" {
		return IngressTarget{}, false
	}
	r, front := a.reach(svc)
	return a.target(r, front), true
}

func (a Ingress) target(r ReachedDestination, front *WaypointHop) IngressTarget {
	t := IngressTarget{ReachedDestination: r, Front: front, Untouched: a.snap.LedUntouched(r.Service.Host), UDP: a.snap.LedByDatagrams(r.Service.Host), Connect: a.snap.Mesh.ConnectTimeout, Refused: a.Refused(), Near: a.near.For(registry.ServiceAndRule{Service: r.Service, Rule: r.Rule})}
	if a.secrets != registry.NoSecrets { // who came without proof of who it is has no certificate to show
		t.MeshTLS = meshTLS(a.snap, r.Service).confined(a.snap, r.Service, r.Rule, a.Namespace)
	}
	return t
}

// Refused are the addresses that the gateway does not connect to, whoever writes them into an EndpointSlice.
func (a Ingress) Refused() []netip.Addr { return a.snap.RefusedAt(a.Ingress) }

// Connectable leaves endpoints out that a gateway does not connect to, whoever writes them: its own pods, the mesh's other reserved addresses, and where no endpoint can be.
func (t *IngressTarget) Connectable(list []registry.Endpoint) []registry.Endpoint {
	return Connectable(list, t.Refused)
}

// Connectable leaves endpoints out that nobody connects to, whoever writes them: at addresses that are refused, which are in order, and where no endpoint can be.
func Connectable(list []registry.Endpoint, refused []netip.Addr) []registry.Endpoint {
	return slices.DeleteFunc(slices.Clone(list), func(e registry.Endpoint) bool {
		addr, err := netip.ParseAddr(e.Address)
		if err != nil {
			return true
		}
		_, is := slices.BinarySearchFunc(refused, inside.Plain(addr), netip.Addr.Compare)
		return is || inside.NoEndpoint(addr)
	})
}
