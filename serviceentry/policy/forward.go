package policy

import (
	"fmt"
	"net/netip"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/wire"
)

// DecideForward says what the explicit forward proxy of `sallyport up` does. It acts for a namespace, whoever its client is, and
// lets out what is registered outside the mesh and exported to that namespace; outboundTrafficPolicy means nothing to it.
func DecideForward(s *registry.Snapshot, namespace string, d Destination) Verdict {
	row := rowFor(s, namespace, d)
	if row == nil {
		return closedForward(s, namespace, d)
	}
	svc, shown := row.Service, resolve.Shown{Kind: kindOf(d.Scheme), Name: d.Host}
	r := resolve.First(row.Routes(), shown, svc.Host)
	if r.Does != resolve.Forward {
		return ended(svc, row.Port, r, shown)
	}
	return Verdict{
		Service: svc, DecidedBy: Object{r.By, "hosts: " + svc.Host}, Allowed: true,
		Path: PathGateway, Cluster: wire.ClusterName(d.Port, svc.Host), Reason: "registered; leaves by the forward proxy",
	}
}

// rowFor is what the proxy's table has for a destination; it knows names, and no addresses.
func rowFor(s *registry.Snapshot, namespace string, d Destination) *resolve.ExitRow {
	if _, err := netip.ParseAddr(d.Host); err == nil {
		return nil
	}
	return resolve.ForwardProxy(s, namespace, registry.GivesSecrets).Row(d.Host, d.Port, namespace, "")
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
	a := asking{s, resolve.SidecarIn(s, namespace, config.Key{}, "", registry.GivesSecrets), Workload{Namespace: namespace}}
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
