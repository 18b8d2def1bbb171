package policy

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Workload is who wants to send something.
type Workload struct {
	Namespace, Name string
	Labels          map[string]string
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
	DecidedBy Object
	Reason    string
	// Service is the registration that governs the destination; nil when nobody registered it.
	Service *registry.Service
	// Missing says that a ServiceEntry in the workload's own namespace is all that is missing; Suggestion writes it.
	Missing bool
}

// Object is the configuration object that decides, and the rule in it.
type Object struct {
	config.Key
	Rule string
}

// Decide says what happens when the workload tries the destination.
func Decide(s *registry.Snapshot, w Workload, d Destination) Verdict {
	a := asking{s, w, s.Scope(w.Namespace, w.Labels)}
	svc := a.find(d)
	if svc == nil {
		return a.unregistered(d)
	}
	port, _ := svc.Port(d.Port)
	v := Verdict{Service: svc, DecidedBy: Object{svc.SourceOf(port), "hosts: " + svc.Host}}
	if why := mismatch(svc, port, a.shown(d)); why != "" {
		v.Path, v.Cluster = PathBlackhole, "BlackHoleCluster"
		v.DecidedBy.Rule = fmt.Sprintf("ports: %d/%s", port.Number, port.Protocol)
		v.Reason = why
		return v
	}
	here := a.FarEnd(svc, a.Rule(svc, a.workload.Namespace, a.Selecting(a.workload.Namespace, a.workload.Labels)), registry.Place{
		Kind: registry.AtSidecar, Namespace: a.workload.Namespace,
	})
	if c, closed := here.Closed[port.Number]; closed {
		v.Path, v.Cluster = PathBlackhole, "BlackHoleCluster"
		v.DecidedBy, v.Reason = Object{Key: c.By}, c.String()
		return v
	}
	if a.refusedName(svc, port, d) {
		v.Path, v.Gateway, v.Cluster = PathGateway, svc.Exit, clusterName(443, svc.Exit.Host())
		v.Reason = fmt.Sprintf("%s is another name of %s, but the gateway takes TLS for that name only: give it as the server's name (SNI)", d.Host, svc.Host)
		return v
	}
	v.Allowed = true
	if svc.Exit.IsZero() {
		v.Path, v.Cluster = PathDirect, clusterName(port.Number, svc.Host)
		v.Reason = "registered; leaves straight from the sidecar"
		if !svc.External {
			v.Reason = "a service of the mesh"
		}
		return v
	}
	v.Path, v.Gateway = PathGateway, svc.Exit
	v.Cluster = clusterName(443, svc.Exit.Host())
	if svc.Borrowed {
		v.Cluster = "outbound|443|egress|" + svc.Exit.Host()
	}
	v.Reason = "registered; leaves by the egress gateway"
	there := a.FarEnd(svc, a.ExitRule(svc), registry.Place{Kind: registry.AtGateway, Namespace: svc.Exit.Namespace})
	if c, closed := there.Closed[port.Number]; closed {
		v.Allowed, v.DecidedBy, v.Reason = false, Object{Key: c.By}, "the egress gateway sends nothing: "+c.String()
		return v
	}
	if ip := a.dialled(d); svc.Dialled() && port.Protocol == registry.TCP && ip.IsValid() && !there.Takes(ip) {
		v.Allowed = false
		v.Reason = fmt.Sprintf("resolution NONE leads to the address that is dialled, and the egress gateway does not connect to %s: it is private, one of the mesh's own, or in an IPv6 range; allow it in the mesh settings with sallyport.dns.allowPrivateFor.%s, or let the entry leave straight from the pod with the annotation %s: %s",
			ip, svc.Namespace, registry.GatewayAnnotation, registry.ExitDirect)
		return v
	}
	if len(gatewayEndpoints(s, svc.Exit)) == 0 {
		v.Reason += ", of which no endpoint is known: until one is, requests fail"
	}
	return v
}

// dialled is the address that the workload connects to, as far as that is known; requests go by their Host.
func (a asking) dialled(d Destination) netip.Addr {
	if a.shown(d).Scheme == HTTP {
		return netip.Addr{}
	}
	if ip, err := netip.ParseAddr(d.Host); err == nil {
		return ip
	}
	return a.resolved(d)
}

// refusedName says whether TLS shows an ExternalName Service's name to a gateway, which knows the host by its own.
func (a asking) refusedName(svc *registry.Service, port registry.Port, d Destination) bool {
	tls := port.Protocol == registry.TLS && !svc.Exit.IsZero()
	_, err := netip.ParseAddr(d.Host)
	return tls && err != nil && !svc.Wildcard() && svc.Host != d.Host
}

// mismatch says why a protocol does not go where another one is registered; "" when it does. TCP takes all, and so does a
// TLS port of a service of the mesh.
func mismatch(svc *registry.Service, port registry.Port, d Destination) string {
	speaks := map[Scheme]registry.Protocol{HTTP: registry.HTTP, HTTPS: registry.TLS, TLS: registry.TLS, TCP: registry.TCP}[d.Scheme]
	switch {
	case port.Protocol == registry.TCP, port.Protocol == registry.TLS && !svc.External, port.Protocol == speaks, speaks == registry.HTTP && port.Protocol.IsHTTP():
		return ""
	default:
		return fmt.Sprintf("port %d of the host is registered as %s, and %s is not that", port.Number, port.Protocol, d.Scheme)
	}
}

func gatewayEndpoints(s *registry.Snapshot, ref registry.Ref) []registry.Endpoint {
	if svc := s.GatewayService(ref); svc != nil {
		return svc.Endpoints
	}
	return nil
}

func clusterName(port uint32, host string) string {
	return "outbound|" + strconv.FormatUint(uint64(port), 10) + "||" + host
}
