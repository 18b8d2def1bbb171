package policy

import (
	"fmt"
	"net/netip"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/route"
	"github.com/sallyport/sallyport/xds/wire"
)

// PathIngress is the path of what comes into the mesh by an ingress gateway.
const PathIngress = "ingress"

// IngressAttempt is a request, or a connection, of somebody outside that comes to an ingress gateway.
type IngressAttempt struct {
	Destination                           // its name is what TLS asks for, and requests, where these do not say another (header host)
	Gateway     registry.IngressCandidate // who gets it
	By          config.Key                // the object by which the gateway was found
	From        netip.Addr                // the client's; not valid: nobody knows
	Pod         netip.Addr                // that of the gateway's pod which gets it; not valid: of its only one
	Claims      func([]string) []string   // of a request's token, which is to be verified yet; nil without one
	Secrets     registry.SecretAccess     // whether it is known which Secrets there are
}

// Server is what takes something at an ingress gateway: a server of a Gateway, or a listener of one.
type Server struct {
	Object
	TLS string // what becomes of TLS there, as Istio calls it; "" where there is none
}

// entering is one at its gateway.
type entering struct {
	IngressAttempt
	snap   *registry.Snapshot
	at     resolve.Ingress
	listen uint32
}

// DecideIngress says what an ingress gateway does about it: which server takes it and what becomes of its TLS, what RequestAuthentications and
// AuthorizationPolicies of the gateway say, and where its routes lead.
func DecideIngress(s *registry.Snapshot, x IngressAttempt) Verdict {
	who := x.Gateway.Ingress
	who.OnDemand = true // as agents are
	a := entering{IngressAttempt: x, snap: s, at: resolve.IngressOf(s, who, x.Secrets)}
	a.listen = a.at.Listens(x.Port)
	v := Verdict{Allowed: true, Path: PathIngress, Gateway: x.Gateway.Service, DecidedBy: Object{Key: x.By}, Reason: "comes in"}
	servers := a.at.ServersAt(a.listen)
	if len(servers) == 0 {
		return a.unopened(v)
	}
	if by, _, lacks := s.Lacks(who, x.Port); lacks {
		v.Reason += fmt.Sprintf(", though no Service of the gateway's pods has port %d, which %s opens: nobody does by one", x.Port, by)
	}
	server := &servers[0]
	switch {
	case server.Serves.Family() == registry.ServesRequests && x.Scheme != HTTP:
		return a.takenBy(v, resolve.ByServerName(servers, x.Host)).refuse(Object{server.Gateway, server.Field}, fmt.Sprintf("the port takes plain HTTP, and %s is not that", x.Scheme))
	case server.Serves.Family() == registry.ServesRequests:
		return a.request(a.takenBy(v, resolve.ByServerName(servers, a.named())), server)
	case server.Serves == registry.ServesBytes:
		return a.connection(a.takenBy(v, server), server, "")
	}
	return a.byTLS(v, servers)
}

// DecideIngressThrough is Enter, and what the pods say to which it goes: where all of them refuse it, nobody gets it.
func DecideIngressThrough(s *registry.Snapshot, x IngressAttempt) (Verdict, []PodsVerdict) {
	return DecideIngress(s, x).whole()
}

// unopened is the verdict of a port at which nothing is taken.
func (a entering) unopened(v Verdict) Verdict {
	if by, field, why := a.at.NotOpened(a.Port); why != "" {
		return v.refuse(Object{by, field}, "the server is not opened: "+why)
	}
	return v.refuse(v.DecidedBy, fmt.Sprintf("no Gateway opens port %d at these pods", a.Port))
}

// takenBy notes which server takes it; nil: none has its name.
func (a entering) takenBy(v Verdict, s *resolve.IngressServer) Verdict {
	if s != nil {
		v.Server = Server{Object{s.Gateway, s.Field}, tlsOf(s)}
	}
	return v
}

// tlsOf is what a server does with TLS.
func tlsOf(s *resolve.IngressServer) string {
	switch {
	case s.Serves == registry.PassesTLS:
		return "PASSTHROUGH"
	case s.Serves == registry.PassesMesh:
		return "AUTO_PASSTHROUGH"
	case s.TLS == nil:
		return ""
	default:
		return map[registry.ClientCertificate]string{
			registry.NoneAsked: "SIMPLE", registry.Required: "MUTUAL", registry.Asked: "OPTIONAL_MUTUAL", registry.Unverified: "OPTIONAL_MUTUAL, whatever certificate is shown",
		}[s.TLS.Clients]
	}
}

// byTLS is what becomes of something at a port of TLS.
func (a entering) byTLS(v Verdict, servers []resolve.IngressServer) Verdict {
	if !a.Scheme.IsTLS() {
		return v.refuse(Object{servers[0].Gateway, servers[0].Field}, fmt.Sprintf("the port takes TLS, and %s is not that", a.Scheme))
	}
	sni := a.sni()
	server := resolve.ByServerName(servers, sni)
	if server == nil {
		return v.refuse(v.DecidedBy, fmt.Sprintf("no server of port %d has the name that TLS asks for (%q), so the connection is closed before any certificate is shown", a.Port, sni))
	}
	v = a.takenBy(v, server)
	by := Object{server.Gateway, server.Field}
	switch {
	case server.Serves == registry.PassesMesh:
		return v.refuse(by, "the server passes mutual TLS of the mesh on, from other networks, and nobody's outside")
	case server.Closed != "":
		return v.refuse(by, "the server is closed: "+server.Closed)
	case server.Serves == registry.ServesTLSRequests && a.Scheme != HTTPS:
		return v.refuse(by, "the server reads requests inside of TLS, and tls says none: ask for https://")
	case server.Serves == registry.ServesTLSRequests:
		return a.shows(a.request(v, server), server)
	case server.Serves == registry.PassesTLS:
		return a.connection(v, server, sni)
	default:
		return a.shows(a.connection(v, server, sni), server)
	}
}

// shows adds what of TLS nobody knows here: what the client proves, and Secrets that cannot be read.
func (a entering) shows(v Verdict, s *resolve.IngressServer) Verdict {
	if v.Allowed && s.Roots != nil && s.TLS.Clients == registry.Required {
		v.Reason += "; the client has to show a certificate that " + named(s.Roots.Ref) + " vouches for"
	}
	if a.Secrets == registry.SecretsUnseen && len(s.Given) > 0 {
		v.Reason += "; whether " + named(s.Given[0].Ref) + " is there is not known here"
	}
	return v
}

// named is a Secret, or what stands in the place of one.
func named(ref registry.CredentialRef) string {
	if ref.Bundle != "" {
		return ref.Bundle
	}
	return "Secret " + ref.Namespace + "/" + ref.Name
}

// sni is the name that the client's TLS asks for; "" where it says none.
func (a entering) sni() string {
	if _, err := netip.ParseAddr(a.Host); err == nil || !a.Scheme.IsTLS() {
		return ""
	}
	return a.Host
}

// request is what becomes of a request that the gateway reads.
func (a entering) request(v Verdict, server *resolve.IngressServer) Verdict {
	v.Cluster = ""
	r, ok := a.read()
	if !ok {
		return v.answer(400, Object{Key: a.By}, "the request's path is none")
	}
	if by, why := verified(a.snap.Verifying(a.Gateway.Namespace, a.Gateway.Has), &r); why != "" {
		return v.answer(statusIn(why), by, why)
	}
	asked := a.asked()
	asked.Authority, asked.Request = r.Authority, requestAsked(egresspolicy.HTTP, r)
	if v = a.authorized(v, asked); !v.Allowed {
		v.Status = 403
		return v
	}
	name, row := a.at.Row(server.Table, a.named())
	if row == nil && server.Others {
		return v.answer(421, Object{Key: a.By}, fmt.Sprintf("%s is not a name that the connection was opened for", a.named()))
	}
	if row == nil {
		by, why := a.noRoute(fmt.Sprintf("no route is for %s at this port", a.named()), a.named())
		return v.answer(404, by, why)
	}
	if row.Redirect && r.Headers["x-forwarded-proto"][0] != "https" { // a proxy in front may have ended TLS
		v.Location = "https://" + r.Authority + r.Path
		by := Object{Key: a.By}
		if g := a.at.Redirects(row.Table, name); g != nil {
			by = Object{g.Key, "tls.httpsRedirect"}
		}
		return v.answer(301, by, "requests have to come by TLS")
	}
	if row.Elsewhere || !row.For(a.sni()) {
		return v.answer(421, Object{Key: a.By}, fmt.Sprintf("%s is not the name that the connection was opened for, and its server asks for a connection of its own", name))
	}
	shown := resolve.Attempt{Kind: resolve.Requests, Name: a.named(), Request: r}
	return a.follow(v, row, resolve.FirstMatch(row.Routes(), shown, name), shown)
}

// noRoute says of a name that no route is for it: nobody wrote one, or nothing is told of what somebody wrote.
func (a entering) noRoute(why, name string) (Object, string) {
	if by, untold, is := a.snap.Untold(a.Gateway.Ingress, name); is {
		return Object{by, "gateways"}, why + ": " + untold
	}
	return Object{Key: a.By}, why
}

// follow is the verdict of a row's route, or of none.
func (a entering) follow(v Verdict, row *resolve.IngressRow, r *resolve.Route, shown resolve.Attempt) Verdict {
	none := uint32(503) // the status of what leads nowhere
	if row.Alone {
		none = 500
	}
	switch {
	case r == nil:
		return v.answer(404, Object{Key: a.By}, "no route is for this")
	case r.Action == resolve.Close:
		return v.answer(none, Object{Key: r.Closed.By}, "nothing is sent: "+r.Closed.String())
	case r.Action == resolve.Unrouted || r.Action == resolve.Forward && len(r.To) == 0:
		return v.answer(404, Object{Key: r.By}, "none of its routes is for this")
	case r.Action == resolve.Answer && r.HTTP.Redirect != nil:
		return v.answer(r.HTTP.Redirect.Code, Object{r.By, r.Field}, "it is answered with a redirect, and nothing is sent")
	case r.Action == resolve.Answer:
		return v.answer(r.HTTP.DirectResponse.Status, Object{r.By, r.Field}, "it is answered here, and nothing is sent")
	}
	if fault, refuses := aborted(nil, r); refuses {
		return v.answer(r.HTTP.Abort.Status, fault.DecidedBy, fault.Reason)
	}
	if r.ExternalAuth != nil {
		v.Reason += fmt.Sprintf("; %s is asked first whether it may, as %s wants, which is taken for yes", r.ExternalAuth.Service.Host, ruleOf(r))
	}
	which := most(r.To)
	to := &r.To[which]
	if to.Closed != nil {
		return v.answer(none, Object{Key: to.Closed.By}, "nothing is sent: "+to.Closed.String())
	}
	if r.HTTP != nil {
		shown.Request = r.HTTP.Sent(r.Match, which, shown.Request)
	}
	v = a.leads(v, r, to, shown)
	if n := len(r.To); n > 1 {
		v.Reason += fmt.Sprintf(", as %s of %d destinations", share(r.To, *to), n)
	}
	return v
}

// leads is the verdict of what goes to a destination in the mesh.
func (a entering) leads(v Verdict, r *resolve.Route, to *resolve.WeightedDestination, shown resolve.Attempt) Verdict {
	v.Service, v.Cluster = to.Service, wire.SubsetName(to.Port.Number, to.Subset, to.Service.Host)
	if to.Untouched {
		v.Cluster = wire.UntouchedCluster(to.Port.Number, to.Subset, to.Service.Host)
	}
	v.DecidedBy = Object{r.By, r.Field}
	v.Reason += fmt.Sprintf("; led to %s by %s", to.Service.Host, ruleOf(r))
	target, _ := a.at.Target(to.Service.Host)
	if target.Front != nil {
		return a.byWaypoint(v, &target, to, shown)
	}
	v.end = &end{asking: a.asClient(), entry: &target, untouched: to.Untouched, service: to.Service, port: to.Port, subset: to.Subset, shown: shown}
	if !v.end.anybody() {
		v.unanswered("no endpoint of it is known that the gateway connects to", r.HTTP != nil)
	}
	return v
}

// byWaypoint is the verdict of what goes through a Service's waypoint, which has the gateway for its client.
func (a entering) byWaypoint(v Verdict, target *resolve.IngressTarget, to *resolve.WeightedDestination, shown resolve.Attempt) Verdict {
	there := a.asClient().fronted(resolve.SidecarHost{Service: to.Service, Waypoint: target.Front}, to.Port, &resolve.Route{By: v.DecidedBy.Key}, shown)
	v.Before, v.Authorization = v.Authorization, there.Authorization
	v.Waypoint, v.end = there.Waypoint, there.end
	v.Reason += "; " + there.Reason
	if !there.Allowed {
		v.Allowed, v.DecidedBy = false, there.DecidedBy
	}
	return v
}

// connection is what becomes of bytes that nobody reads. sni is the name by which they are asked about; "" of a port that takes anything.
func (a entering) connection(v Verdict, server *resolve.IngressServer, sni string) Verdict {
	if v = a.authorized(v, a.asked()); !v.Allowed {
		return v
	}
	name, row := "", a.at.BytesRow(server.Table)
	if !server.Serves.Nameless() {
		name, row = a.at.Row(server.Table, sni)
	}
	if row == nil {
		by, why := a.noRoute("no route is for connections there", name)
		if by.Key == a.By {
			by = Object{server.Gateway, server.Field}
		}
		return v.refuse(by, why)
	}
	shown := resolve.Attempt{Kind: resolve.Connections, Name: sni, Request: route.Request{SNI: sni}}
	r := resolve.FirstMatch(row.Routes(), shown, name)
	switch { // what a pod makes of the bytes
	case a.Scheme == HTTP && server.Serves == registry.ServesBytes, a.Scheme == HTTPS && server.Serves == registry.ServesTLSBytes:
		shown.Kind = resolve.Requests
		shown.Request, _ = a.read()
	case a.Scheme.IsTLS() && server.Serves != registry.ServesTLSBytes:
		shown.Kind, shown.Hello = resolve.TLSConnections, resolve.ClientHello{TLS: true, Name: a.sni()}
	}
	v = a.follow(v, row, r, shown)
	v.Status = 0
	return v
}

// asClient is the gateway, as the pods have it for their client.
func (a entering) asClient() asking {
	w := Workload{Namespace: a.Gateway.Namespace, Labels: a.Gateway.Has, Name: a.Gateway.Service.Name}
	if list := gatewayEndpoints(a.snap, a.Gateway.Service); len(list) == 1 {
		w.Address, _ = netip.ParseAddr(list[0].Address)
	}
	return asking{snap: a.snap, workload: w, at: a.At}
}

// asked is what the gateway's policies are asked about.
func (a entering) asked() *authz.Attempt {
	pod := a.Pod
	if !pod.IsValid() {
		pod = a.asClient().workload.Address
	}
	return &authz.Attempt{Domains: a.snap.Mesh.TrustDomains(), From: a.From, Remote: a.remote(), To: pod, Port: a.listen, SNI: a.sni()}
}

// authorized asks the AuthorizationPolicies of the gateway's pods.
func (a entering) authorized(v Verdict, asked *authz.Attempt) Verdict {
	set := a.snap.Authorizing(a.Gateway.Namespace, a.Gateway.Has)
	if len(set) == 0 {
		return v
	}
	return v.judge(a.snap, set, asked)
}

// answer is the verdict of what the gateway answers itself.
func (v Verdict) answer(status uint32, by Object, why string) Verdict {
	v = v.refuse(by, why)
	v.Status = status
	return v
}
