package bootstrap

import (
	"errors"
	"fmt"
	"net/netip"
)

// The roles a proxy can have; they are the first part of Istio's node id.
const (
	Sidecar  = "sidecar"
	Router   = "router"
	Waypoint = "waypoint"
	Ztunnel  = "ztunnel" // the proxy of a node, for its pods without sidecars
)

// Version is what the proxy says in ISTIO_VERSION: the Istio API that it understands.
const Version = "1.31-sallyport"

// Options describe one proxy.
type Options struct {
	Role           string // Sidecar, Router or Waypoint
	Name           string // the pod
	Namespace      string
	ServiceAccount string
	IPs            []netip.Addr // the pod's addresses; the first is in the node id
	Labels         map[string]string

	Workload    string // the Deployment or whatever owns the pod; "" for Name
	ClusterID   string // "" for Kubernetes, Istio's default
	MeshID      string // "" for TrustDomain
	TrustDomain string // "" for cluster.local
	DNSDomain   string // of the node id; "" for NAMESPACE.svc.cluster.local
	ProxyConfig map[string]any
	Metadata    map[string]any // further node metadata; wins over what is derived from the fields above

	Socket    string // path of the agent's socket
	Questions string // path of the socket by which the agent asks an egress gateway's table; "": there is none
	// EndsConnections says whether connections that are open may be ended there, and how (wire.EndsConnectionsMetadata).
	EndsConnections string

	Resolver   netip.AddrPort // who resolves names for Envoy
	IPv6       bool           // of the agent of a node: its kernel has it
	DNSCapture bool           // the agent answers the application's DNS from the mesh's names
	AdminPort  uint16         // on 127.0.0.1
	StatsPort  uint16         // Prometheus, on every address
	StatsLocal bool           // or on 127.0.0.1 alone

	MaxConnections uint32 // from downstream, over all listeners; 0 for 100,000
	Sessions       uint32 // of UDP, which a gateway may have at a time; 0: nobody says
	MemoryLimit    uint64 // bytes that agent and Envoy may take together; 0: Envoy's heap has no limit

	// Refusing is the path of a file: while there is "1" in it, Envoy takes nothing new. "0" is put in its place, and the other way around, by
	// moving. "" is no such file.
	Refusing string

	// Scarce is the path of a file with a number from 0 to 1: how scarce places for connections are. Those that rest have less time then, as when
	// the heap fills. It is replaced by moving. "" is no such file.
	Scarce string
}

// check says which option makes a bootstrap impossible.
func (o *Options) check() error {
	switch o.Role {
	case Sidecar, Router, Waypoint, Ztunnel:
	default:
		return fmt.Errorf("role %q: must be %s, %s or %s", o.Role, Sidecar, Router, Waypoint)
	}
	var errs []error
	for _, field := range []struct{ name, value string }{
		{"name", o.Name}, {"namespace", o.Namespace}, {"service account", o.ServiceAccount}, {"socket", o.Socket},
	} {
		if field.value == "" {
			errs = append(errs, fmt.Errorf("%s: must not be empty", field.name))
		}
	}
	if len(o.IPs) == 0 || !o.IPs[0].IsValid() {
		errs = append(errs, errors.New("ip: the proxy needs at least one address"))
	}
	if !o.Resolver.IsValid() {
		errs = append(errs, errors.New("resolver: must be ADDRESS:PORT"))
	}
	if o.AdminPort == 0 || o.StatsPort == 0 || o.AdminPort == o.StatsPort {
		errs = append(errs, fmt.Errorf("admin port %d and stats port %d: must be two ports", o.AdminPort, o.StatsPort))
	}
	return errors.Join(errs...)
}

func or(value, fallback string) string {
	if value != "" {
		return value
	}
	return fallback
}
