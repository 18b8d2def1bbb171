package policy

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/route"
	"github.com/sallyport/sallyport/xds/wire"
)

// DecideForward says what the explicit forward proxy of `sallyport up` does. It acts for a namespace, whoever its client is, and
// lets out what is registered outside the mesh and exported to that namespace; outboundTrafficPolicy means nothing to it.
func DecideForward(s *registry.Snapshot, namespace string, d Destination) Verdict {
	row := rowFor(s, namespace, d)
	said, denied := deniedForward(s, namespace, d, row)
	if denied {
		return said
	}
	return routedForward(s, namespace, d, row).ruledAs(said)
}

// routedForward is what becomes of what no policy denies.
func routedForward(s *registry.Snapshot, namespace string, d Destination, row *resolve.ExitRow) Verdict {
	if row == nil {
		return closedForward(s, namespace, d)
	}
	svc, shown := row.Service, resolve.Attempt{Kind: kindOf(d.Scheme), Name: d.Host}
	r := resolve.FirstMatch(row.Routes(), shown, svc.Host)
	if r.Action != resolve.Forward {
		return ended(svc, row.Port, r, shown)
	}
	v := Verdict{
		Service: svc, DecidedBy: Object{r.By, "hosts: " + svc.Host}, Allowed: true,
		Path: PathGateway, Cluster: wire.ClusterName(d.Port, svc.Host), Reason: "registered; leaves by the forward proxy",
	}
	if nobodyAtExit(svc, row.Restrictions) {
		v.unanswered(fmt.Sprintf("no endpoint of %s is known that the proxy connects to", svc.Host), shown.Kind == resolve.Requests)
	}
	return v
}

// rowFor is what the proxy's table has for a destination; it knows names, and no addresses.
func rowFor(s *registry.Snapshot, namespace string, d Destination) *resolve.ExitRow {
	if _, err := netip.ParseAddr(d.Host); err == nil {
		return nil
	}
	return resolve.ForwardProxy(s, namespace, registry.GivesSecrets).Row(d.Host, d.Port, namespace, "")
}

// upAccount is the service account that the proxy runs as.
const upAccount = "sallyport-up"

// deniedForward asks the namespace's policies. What is spoken in a tunnel the proxy knows by what its port was registered with.
func deniedForward(s *registry.Snapshot, namespace string, d Destination, row *resolve.ExitRow) (Verdict, bool) {
	if _, err := netip.ParseAddr(d.Host); err == nil {
		return Verdict{}, false
	}
	protocol := egresspolicy.HTTP
	switch {
	case d.Scheme == HTTP:
	case row != nil && row.Port.Protocol == registry.TLS:
		protocol = egresspolicy.TLS
	default:
		protocol = egresspolicy.TCP
	}
	v := Verdict{Path: PathBlackhole, Cluster: wire.BlackHoleCluster}
	a := asking{snap: s, workload: Workload{Namespace: namespace, Account: upAccount}}
	what := about{host: d.Host, port: d.Port, protocol: protocol, request: requestTo(d), at: d.At}
	if row != nil {
		what.closed = s.Closed(row.Service)
	}
	return v, !a.permitted(&v, what)
}

// requestTo is the request that a destination stands for.
func requestTo(d Destination) route.Request {
	return route.Request{Method: cmp.Or(d.Method, "GET"), Path: cmp.Or(d.Path, "/"), Headers: d.Headers, Unknown: d.Unknown}
}

func kindOf(s Scheme) resolve.Kind {
	switch {
	case s == HTTP:
		return resolve.Requests
	case s.IsTLS():
		return resolve.TLSConnections
	default:
		return resolve.Connections
	}
}

func closedForward(s *registry.Snapshot, namespace string, d Destination) Verdict {
	a := asking{s, resolve.SidecarIn(s, namespace, config.Key{}, "", registry.GivesSecrets), Workload{Namespace: namespace}, d.At}
	why, missing := a.hidden(d)
	if _, err := netip.ParseAddr(d.Host); err == nil {
		why, missing = "up is asked for names, and an address is none", false
	} else if svc := s.Visible(d.Host, namespace, nil); svc != nil && !svc.External {
		why, missing = fmt.Sprintf("%s is inside the mesh, which up does not lead to", svc.Source), false
	}
	return Verdict{
		Path: PathBlackhole, Cluster: wire.BlackHoleCluster, Missing: missing, Reason: why + "; up lets out only what is registered",
		DecidedBy: Object{resolve.MeshPolicy(s), "up: what is not registered is refused"},
	}
}
