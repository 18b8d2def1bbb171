package policy

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/wire"
)

// Workload is who wants to send something.
type Workload struct {
	Namespace, Name string
	Account         string // "": that of the workloads that are known by these labels
	Labels          map[string]string
	Address         netip.Addr // not valid: nobody knows
}

// The paths that traffic takes.
const (
	PathGateway     = "gateway"
	PathDirect      = "direct"
	PathPassthrough = "passthrough"
	PathBlackhole   = "blackhole"
)

// Verdict is what happens to the traffic.
type Verdict struct {
	Allowed   bool
	Path      string
	Cluster   string       // the sidecar's
	Gateway   registry.Ref // zero where no gateway is passed
	Waypoint  registry.Ref // zero where no waypoint is
	DecidedBy Object
	Reason    string
	// Service is the registration that governs the destination; nil when nobody registered it.
	Service *registry.Service
	// Missing says that a ServiceEntry in the workload's own namespace is all that is missing; Suggestion writes it.
	Missing bool
	// Ruling is what policies say of it, where one says something; WouldDeny is what would deny it, if those that are observed were
	// enforced. Asked is what Policies were asked; nil where there are none.
	Ruling, WouldDeny *egresspolicy.Ruling
	Asked             *egresspolicy.Attempt
	Policies          egresspolicy.Set
	// Authorization is what AuthorizationPolicies say: the gateway's, the waypoint's, or, of what comes in, those of whom it comes to.
	Authorization Authorization
	// Server is what takes it at an ingress gateway, and Status what that answers itself, Location being where a redirect leads: 0 where it answers
	// nothing. Before is what the gateway's own AuthorizationPolicies say, where Authorization is a waypoint's.
	Server   Server
	Status   uint32
	Location string
	Before   Authorization
	// Mode is, of what comes to a pod, what the pod takes at the port (registry.MTLSMode).
	Mode string
	// Unanswered says of what is allowed that nobody is known who would answer it: DecideThrough says so of services, Decide of gateways alone.
	Unanswered bool
	// end is where it goes, in the mesh or straight from the pod; nil where that is elsewhere, or nowhere.
	end *end
}

// Object is the configuration object that decides, and the rule in it.
type Object struct {
	config.Key
	Rule string
}

// asking is who asks what a snapshot says.
type asking struct {
	snap *registry.Snapshot
	resolve.Sidecar
	workload Workload
	at       time.Time
}

// Decide says what happens when the workload tries the destination: it walks the routes that the workload's proxy has for it,
// and those of the gateway behind.
func Decide(s *registry.Snapshot, w Workload, d Destination) Verdict {
	a := asking{s, resolve.Workload(s, w.Namespace, w.Labels), w, d.At}
	if a.ambient() {
		a.Sidecar = a.AtNode()
	}
	svc, shown := a.Find(d)
	if svc == nil {
		return a.unregistered(d, shown)
	}
	host := a.Reached(svc)
	if a.ambient() {
		host = a.Fronted(host)
	}
	port, there := svc.Port(d.Port)
	switch {
	case !there && shown.Kind == resolve.TLSConnections && shown.Name != "" && !shown.Again: // it is asked for again, by its address
		return a.unregistered(d, shown)
	case !there || !host.Takes(port):
		return a.follows(a.Held(d), d, shown)
	}
	if v, fronted := a.toPodOf(host, port, d, shown); fronted {
		return v
	}
	r, taken := host.Match(port, shown, svc.Host)
	switch {
	case !taken:
		return a.unregistered(d, shown)
	case r.Action == resolve.NotRegistered:
		return a.follows(a.OutboundPolicy().ForAddress(), d, shown)
	case r.Action == resolve.Answer || r.Action == resolve.Unrouted:
		return answered(svc, port, &r)
	case r.Action != resolve.Forward:
		v := ended(svc, port, &r, shown)
		if v.Waypoint = a.waypointOf(&r); host.Waypoint != nil {
			v.Waypoint = host.Waypoint.Gateway
		}
		return v
	case host.Waypoint != nil:
		return a.fronted(host, port, &r, shown)
	case len(r.To) > 0:
		return a.led(svc, port, &r, shown)
	case svc.Exit.IsZero():
		return a.direct(svc, port, &r, shown)
	default:
		return a.byGateway(svc, port, &r, shown, a.Means(svc))
	}
}

// ended is the verdict of a route that ends what it takes.
func ended(svc *registry.Service, port registry.Port, r *resolve.Route, shown resolve.Attempt) Verdict {
	v := Verdict{Service: svc, Path: PathBlackhole, Cluster: wire.BlackHoleCluster, DecidedBy: Object{Key: r.By}}
	if r.Action == resolve.Close {
		v.Reason = r.Closed.String()
		return v
	}
	v.DecidedBy.Rule = fmt.Sprintf("ports: %d/%s", port.Number, port.Protocol)
	v.Reason = fmt.Sprintf("port %d of the host is registered as %s, and %s is not that", port.Number, port.Protocol, spoken(shown.Kind))
	return v
}

func spoken(k resolve.Kind) string {
	return map[resolve.Kind]string{resolve.Connections: "tcp", resolve.TLSConnections: "tls", resolve.Requests: "http"}[k]
}

func (a asking) direct(svc *registry.Service, port registry.Port, r *resolve.Route, shown resolve.Attempt) Verdict {
	v := Verdict{
		Service: svc, DecidedBy: Object{r.By, "hosts: " + svc.Host}, Allowed: true,
		Path: PathDirect, Cluster: wire.ClusterName(port.Number, svc.Host), Reason: "registered; leaves straight from the sidecar",
	}
	v.end = &end{asking: a, service: svc, port: port, shown: shown, outside: svc.External}
	if !svc.External {
		v.Reason = "a service of the mesh"
		return v
	}
	name := svc.Host
	if svc.Wildcard() {
		name = hostShown(shown)
	}
	if !a.permitted(&v, about{name, port.Number, spokenAs(shown.Kind), shown.Request, a.at, a.snap.Closed(svc)}) {
		v.Path, v.Cluster = PathBlackhole, wire.BlackHoleCluster
	}
	return v
}

// byGateway asks the gateway's routes, too, as it sees what the sidecar hands on.
func (a asking) byGateway(svc *registry.Service, port registry.Port, r *resolve.Route, shown resolve.Attempt, means string) Verdict {
	v := Verdict{
		Service: svc, Path: PathGateway, Gateway: svc.Exit,
		Cluster: wire.GatewayCluster(registry.GatewayPort, svc.Exit.Host(), svc.Borrowed),
	}
	name := svc.Host
	if svc.Wildcard() {
		name = shown.Name
	}
	row := resolve.GatewayOf(a.snap, svc.Exit, registry.GivesSecrets).Row(name, port.Number, a.workload.Namespace, means)
	if port.Protocol == registry.TLS {
		shown = shown.Read()
	}
	speaks := spokenThere(shown.Kind, svc, port)
	if speaks == egresspolicy.TCP { // it is told that nobody reads it, whatever its own registration says
		shown.Kind = resolve.Connections
	}
	what := about{host: name, port: port.Number, protocol: speaks, request: shown.Request, at: a.at}
	called := shown.Name
	if most, long := registry.TunnelNameTooLong(name, port.Number, means, false); long && svc.Wildcard() && shown.Kind != resolve.Requests {
		v.DecidedBy = Object{r.By, "hosts: " + svc.Host}
		v.Reason = fmt.Sprintf("the name has %d bytes, and the way to the egress gateway can say at most %d", len(name), most)
		return v
	}
	otherName := port.Protocol == registry.TLS && called != "" && !svc.Wildcard() && called != svc.Host
	if otherName { // the sidecar asks for the host; the ClientHello comes after that
		shown.Name, shown.Request.SNI = svc.Host, svc.Host
	}
	if row != nil {
		what.closed = a.snap.Closed(row.Service)
	}
	if to := a.ledUnread(row, shown); to != nil {
		what.host, what.port, what.closed = to.Service.Host, to.Port.Number, a.snap.Closed(to.Service)
	}
	if !a.permitted(&v, what) || !a.authorized(&v, svc.Exit, name, port.Number, speaks, shown.Request) {
		return v
	}
	if otherName {
		v.DecidedBy = Object{r.By, "hosts: " + svc.Host}
		v.Reason = fmt.Sprintf("%s is another name of %s, but the gateway takes TLS for that name only: give it as the server's name (SNI)", called, svc.Host)
		return v
	}
	if row == nil { // names of the gateway's own host, which a pattern covers
		v.DecidedBy, v.Reason = Object{Key: resolve.MeshPolicy(a.snap)}, "the egress gateway does not connect to this name, whoever registered it"
		return v
	}
	v.DecidedBy = Object{row.Service.SourceOf(row.Port), "hosts: " + row.Service.Host}
	if !row.LetsIn(a.workload.Namespace) {
		if c, closed := row.Closed(); closed && shown.Kind == resolve.Requests {
			v.DecidedBy = Object{Key: c.By} // the route that they do not get to names it
		}
		v.Reason = fmt.Sprintf("the egress gateway knows the name by %s, which is not exported to namespace %s", row.Service.Source, a.workload.Namespace)
		return v
	}
	svc, port = row.Service, row.Port
	if shown.Request.Authority = name; port.Number != 80 && shown.Kind == resolve.Requests { // as the sidecar sends it
		shown.Request.Authority = net.JoinHostPort(name, strconv.FormatUint(uint64(port.Number), 10))
	}
	onward, taken := row.Match(shown, svc.Host)
	r = &onward
	switch {
	case !taken:
		v.Reason = "the egress gateway takes nothing like this for the port"
	case len(r.To) > 0 && r.Audience != nil && !slices.Contains(r.Audience, a.workload.Namespace):
		v.DecidedBy, v.Reason = Object{Key: r.By}, "led to a host that is not exported to this namespace by "+ruleOf(r)
	case r.Action == resolve.Close:
		v.DecidedBy, v.Reason = Object{Key: r.By}, "the egress gateway sends nothing: "+r.Closed.String()
	case r.Action == resolve.Answer || r.Action == resolve.Unrouted:
		there := answered(svc, port, r)
		v.DecidedBy, v.Reason = there.DecidedBy, "at the egress gateway "+there.Reason
	case r.Action == resolve.WrongAddress:
		v.Reason = wrongAddress(svc, shown.Address)
	case r.Action == resolve.WrongProtocol:
		v.DecidedBy.Rule = fmt.Sprintf("ports: %d/%s", port.Number, port.Protocol)
		v.Reason = fmt.Sprintf("port %d of the host is registered as %s, and the egress gateway takes no %s there", port.Number, port.Protocol, spoken(shown.Kind))
	case len(r.To) > 0:
		v = a.ledAtGateway(v, r, what)
	default:
		v.Allowed, v.Reason = true, "registered; leaves by the egress gateway"
		if nobodyAtExit(svc, row.Restrictions) {
			v.unanswered(fmt.Sprintf("no endpoint of %s is known that the egress gateway connects to", svc.Host), shown.Kind == resolve.Requests)
		}
	}
	if v.Allowed && v.Authorization.AddressUnknown {
		v.Reason += addressUnknown
	}
	v.tellAsked()
	if v.Allowed && !answersAt(a.snap, svc.Exit) {
		v.Unanswered = true
		v.Reason += fmt.Sprintf("; no endpoint of the egress gateway %s is known: until one is, requests fail", svc.Exit)
	}
	if v.Allowed && svc.Borrowed && a.snap.LetsInBy(svc.Exit) {
		v.Unanswered = true
		v.Reason += fmt.Sprintf("; others come in by the pods of %s, which are no egress gateway for that: until a VirtualService and a Gateway of namespace %s lead there, or they are labelled as one (istio: egressgateway), it fails", svc.Exit, svc.Exit.Namespace)
	}
	return v
}

func wrongAddress(svc *registry.Service, ip netip.Addr) string {
	return fmt.Sprintf("resolution NONE leads to the address that is dialled, and the egress gateway does not connect to %s: it is private, one of the mesh's own, or in an IPv6 range; allow it in the mesh settings with sallyport.dns.allowPrivateFor.%s, or let the entry leave straight from the pod with the annotation %s: %s",
		ip, svc.Namespace, registry.GatewayAnnotation, registry.ExitDirect)
}

// answersAt says whether an egress gateway has an endpoint at the port that takes what leaves.
func answersAt(s *registry.Snapshot, ref registry.Ref) bool {
	ends := resolve.ExitAt(s, ref)
	if ends.Port.Number == 0 {
		return len(gatewayEndpoints(s, ref)) > 0
	}
	return slices.ContainsFunc(ends.Endpoints, func(e registry.Endpoint) bool { return e.PortOf(ends.Port) != 0 })
}

func gatewayEndpoints(s *registry.Snapshot, ref registry.Ref) []registry.Endpoint {
	if svc := s.GatewayService(ref); svc != nil {
		return s.EndpointsOf(svc)
	}
	return nil
}
