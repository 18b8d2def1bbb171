package policy

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// DecideForward says what the explicit forward proxy of `sallyport up` does. It acts for a namespace, whoever its client is, and
// lets out what is registered outside the mesh and exported to that namespace; outboundTrafficPolicy means nothing to it.
func DecideForward(s *registry.Snapshot, namespace string, d Destination) Verdict {
	a := asking{s, Workload{Namespace: namespace}, nil}
	svc := a.outside(d)
	if svc == nil {
		return a.closedForward(d)
	}
	port, _ := svc.Port(d.Port)
	v := Verdict{Service: svc, DecidedBy: Object{svc.SourceOf(port), "hosts: " + svc.Host}, Path: PathBlackhole, Cluster: "BlackHoleCluster"}
	if why := mismatch(svc, port, d); why != "" {
		v.DecidedBy.Rule = fmt.Sprintf("ports: %d/%s", port.Number, port.Protocol)
		v.Reason = why
		return v
	}
	there := s.FarEnd(svc, s.ExitRule(svc), registry.Place{Kind: registry.AtForward})
	if c, closed := there.Closed[port.Number]; closed {
		v.DecidedBy, v.Reason = Object{Key: c.By}, c.String()
		return v
	}
	v.Allowed, v.Path, v.Cluster = true, PathGateway, clusterName(port.Number, svc.Host)
	v.Reason = "registered; leaves by the forward proxy"
	return v
}

// outside finds what the forward proxy's table has for a name and port: the exact host's row, or the longest wildcard's.
func (a asking) outside(d Destination) *registry.Service {
	if _, err := netip.ParseAddr(d.Host); err == nil {
		return nil // its table knows names
	}
	for svc := range a.Governing(d.Host, a.workload.Namespace, nil) {
		if !svc.External || (svc.Wildcard() && strings.HasSuffix(svc.Host, ".localhost")) {
			continue
		}
		if p, ok := svc.Port(d.Port); ok && p.Protocol != registry.UDP {
			return svc
		}
	}
	return nil
}

func (a asking) closedForward(d Destination) Verdict {
	why, missing := a.hidden(d)
	if _, err := netip.ParseAddr(d.Host); err == nil {
		why, missing = "up is asked for names, and an address is none", false
	} else if svc := a.Visible(d.Host, a.workload.Namespace, nil); svc != nil && !svc.External {
		why, missing = fmt.Sprintf("%s is inside the mesh, which up does not lead to", svc.Source), false
	}
	return Verdict{
		Path: PathBlackhole, Cluster: "BlackHoleCluster", Missing: missing, Reason: why + "; up lets out only what is registered",
		DecidedBy: Object{config.Key{Kind: config.KindMeshConfig, Namespace: a.Mesh.RootNamespace, Name: "mesh"}, "up: what is not registered is refused"},
	}
}
