package policy

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/sallyport/sallyport/serviceentry"
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
}

// Object is the configuration object that decides, and the rule in it.
type Object struct {
	serviceentry.Key
	Rule string
}

// Decide says what happens when the workload tries the destination.
func Decide(s *registry.Snapshot, w Workload, d Destination) Verdict {
	scope := s.Scope(w.Namespace, w.Labels)
	svc := find(s, w, d, scope)
	if svc == nil {
		return unregistered(s, w, d, scope)
	}
	v := Verdict{Service: svc, DecidedBy: Object{svc.Source, "hosts: " + svc.Host}}
	port, _ := svc.Port(d.Port)
	if why := mismatch(port, d); why != "" {
		v.Path, v.Cluster = PathBlackhole, "BlackHoleCluster"
		v.DecidedBy.Rule = fmt.Sprintf("ports: %d/%s", port.Number, port.Protocol)
		v.Reason = why
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
	v.Reason = "registered; leaves by the egress gateway"
	if len(gatewayEndpoints(s, svc.Exit)) == 0 {
		v.Reason += ", of which no endpoint is known: until one is, requests fail"
	}
	return v
}

// find looks the destination up as a sidecar does: by name where the protocol shows one and the proxy reads it, by
// address otherwise.
func find(s *registry.Snapshot, w Workload, d Destination, scope *registry.Scope) *registry.Service {
	ip, err := netip.ParseAddr(d.Host)
	literal := err == nil
	if d.Scheme == TCP || !s.Readable(d.Port, w.Namespace, scope) {
		if !literal {
			ip = resolved(s, w, d, scope)
		}
		return s.MatchAddress(ip, d.Port, w.Namespace, scope)
	}
	switch {
	case !literal:
		return s.Match(d.Host, d.Port, w.Namespace, scope)
	case d.Scheme == HTTP:
		return s.MatchAddress(ip, d.Port, w.Namespace, scope)
	default:
		return nil // no name is sent to an address
	}
}

// resolved is what the workload's DNS answers for a name that is registered: the address made up for it, or the
// first that was written down. It is the zero Addr where the answer comes from outside.
func resolved(s *registry.Snapshot, w Workload, d Destination, scope *registry.Scope) netip.Addr {
	svc := s.Visible(d.Host, w.Namespace, scope)
	if svc == nil || !svc.External {
		return netip.Addr{}
	}
	if svc.VIP4.IsValid() {
		return svc.VIP4
	}
	for _, a := range svc.Addresses {
		if a.IsSingleIP() {
			return a.Addr()
		}
	}
	return netip.Addr{}
}

// mismatch says why a protocol does not go where another one is registered; "" when it does. TCP takes all.
func mismatch(port registry.Port, d Destination) string {
	speaks := map[Scheme]registry.Protocol{HTTP: registry.HTTP, HTTPS: registry.TLS, TLS: registry.TLS, TCP: registry.TCP}[d.Scheme]
	switch {
	case port.Protocol == registry.TCP, port.Protocol == speaks, speaks == registry.HTTP && port.Protocol.IsHTTP():
		return ""
	default:
		return fmt.Sprintf("port %d of the host is registered as %s, and %s is not that", port.Number, port.Protocol, d.Scheme)
	}
}

// unregistered follows the outbound traffic policy of the workload's Sidecar, or the mesh's.
func unregistered(s *registry.Snapshot, w Workload, d Destination, scope *registry.Scope) Verdict {
	by := Object{serviceentry.Key{Kind: serviceentry.KindMeshConfig, Namespace: s.Mesh.RootNamespace, Name: "mesh"}, ""}
	if scope != nil && scope.AllowAny != nil {
		by.Key = scope.Key
	}
	why := hidden(s, w, d, scope)
	if s.AllowAny(scope) && madeUp(s, w, d, scope) {
		by.Rule = "outboundTrafficPolicy.mode: ALLOW_ANY"
		return Verdict{Path: PathBlackhole, Cluster: "PassthroughCluster", DecidedBy: by,
			Reason: why + "; ALLOW_ANY does not help, since the workload's DNS gives the host an address that is made up"}
	}
	if s.AllowAny(scope) {
		by.Rule = "outboundTrafficPolicy.mode: ALLOW_ANY"
		return Verdict{Allowed: true, Path: PathPassthrough, Cluster: "PassthroughCluster", DecidedBy: by, Reason: why + "; ALLOW_ANY lets it through"}
	}
	by.Rule = "outboundTrafficPolicy.mode: REGISTRY_ONLY"
	return Verdict{Path: PathBlackhole, Cluster: "BlackHoleCluster", DecidedBy: by, Reason: why + "; REGISTRY_ONLY closes it"}
}

// madeUp says whether the destination's address leads nowhere but to what is registered for it.
func madeUp(s *registry.Snapshot, w Workload, d Destination, scope *registry.Scope) bool {
	if ip, err := netip.ParseAddr(d.Host); err == nil {
		return registry.MadeUp(ip)
	}
	return registry.MadeUp(resolved(s, w, d, scope))
}

// hidden tells a host that nobody registered from one whose registration does not count for the workload.
func hidden(s *registry.Snapshot, w Workload, d Destination, scope *registry.Scope) string {
	if svc := s.Match(d.Host, d.Port, w.Namespace, scope); svc != nil {
		return fmt.Sprintf("%s registers the host, but %s connections to port %d show no name, and the address is not registered", svc.Source, d.Scheme, d.Port)
	}
	if svc := s.Match(d.Host, 0, w.Namespace, scope); svc != nil {
		return fmt.Sprintf("%s registers the host, but not port %d", svc.Source, d.Port)
	}
	if svc := s.Match(d.Host, 0, w.Namespace, nil); svc != nil {
		return fmt.Sprintf("%s registers the host, but %s hides it from this workload", svc.Source, scope.Key)
	}
	for _, svc := range s.Services(d.Host) {
		return fmt.Sprintf("%s registers the host, but does not export it to namespace %s", svc.Source, w.Namespace)
	}
	return "nobody registered the host"
}

func gatewayEndpoints(s *registry.Snapshot, ref registry.Ref) []registry.Endpoint {
	for _, svc := range s.Services(ref.Host()) {
		return svc.Endpoints
	}
	return nil
}

func clusterName(port uint32, host string) string {
	return "outbound|" + strconv.FormatUint(uint64(port), 10) + "||" + host
}
