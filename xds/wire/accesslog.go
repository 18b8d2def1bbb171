package wire

// Place says which listener of which proxy an entry comes from. It is the log's name.
type Place string

// The places.
const (
	SidecarHTTP   Place = "sidecar-http"   // a request that a sidecar read
	SidecarTunnel Place = "sidecar-tunnel" // a TLS or TCP connection, decided by its name or address
	SidecarTCP    Place = "sidecar-tcp"    // a connection without a name, on a port where nothing is registered
	GatewayHTTP   Place = "gateway-http"   // a request at the gateway, or a CONNECT that it refused
	GatewayTLS    Place = "gateway-tls"    // a TLS connection through the gateway, after its name was checked
	GatewayTCP    Place = "gateway-tcp"    // a TCP connection through the gateway
	IngressHTTP   Place = "ingress-http"   // a request that came into the mesh
	IngressTLS    Place = "ingress-tls"    // a TLS connection that came into the mesh, decided by its name
	IngressTCP    Place = "ingress-tcp"    // a connection that came into the mesh
	IngressUDP    Place = "ingress-udp"    // what a client sent into the mesh by UDP
	InboundHTTP   Place = "inbound-http"   // a request that came to a pod, by its own proxy
	InboundTCP    Place = "inbound-tcp"    // a connection that came to a pod
	InboundTunnel Place = "inbound-tunnel" // one that came by HBONE
	ForwardHTTP   Place = "forward-http"   // the same three at the explicit forward proxy
	ForwardTLS    Place = "forward-tls"
	ForwardTCP    Place = "forward-tcp"
)

// The tags. A value that Envoy does not know is "-" or "".
const (
	TagConfig = "config" // the object behind the upstream cluster: "ServiceEntry/NS/NAME"
	TagRole   = "role"   // the upstream cluster's role, one of Role…
	TagPolicy = "policy" // the object behind a catch-all route
	// TagAuthority is what a connection was asked about by: at a gateway "host:port", as the client said it; at a sidecar "sni:port",
	// ":port" of TLS without a name, and else the address that the client connected to.
	TagAuthority = "authority"
	TagPeer      = "peer"   // the client's verified SPIFFE id
	TagSource    = "source" // the client's address, where the connection came by an internal listener
	TagTarget    = "target" // the address that the client connected to, in the same place
	TagRoute     = "route"  // the name of the row that decided about a connection
	TagBy        = "by"     // ByAddress, where that row was not found by the connection's name
	TagRules     = "rules"  // what policies said of a connection, in the same place: what ParseRuled reads
	// TagTunnel says at an exit that the connection is all of a tunnel: its address here, and, with a space between, what its TLS name has between port and
	// host (TunnelName); nothing at a forward proxy. Where no exit is it is a Leaving's.
	TagTunnel = "tunnel"
	TagPod    = "pod" // at a node's proxy: NAMESPACE/NAME of the pod that it is of
	// TagHandshake is why the TLS of a connection was not agreed on, in Envoy's words, where its listener says so.
	TagHandshake = "handshake"
	TagRevision  = "revision" // the revision of the object that decided: of the row, and behind it the upstream cluster's
	// TagDecided holds those of DecidedTags in one (SplitDecided), for agents that say that they read it (DecidedMetadata).
	TagDecided = "decided"
)

// The roles of clusters.
const (
	RoleGateway     = "gateway"     // the leg from a sidecar to an egress gateway
	RoleInner       = "inner"       // an internal listener, which logs on its own
	RolePassthrough = "passthrough" // the original destination
	RoleBlackhole   = "blackhole"   // nowhere
	RoleExternal    = "external"    // a registered host outside
	RoleMesh        = "mesh"        // a service of the mesh
	RoleWaypoint    = "waypoint"    // the leg from a node's proxy to the waypoint of a host outside
)

// RevisionDigits is how long a revision is: config.Object's.
const RevisionDigits = 32

// ByAddress is the value of TagBy.
const ByAddress = "address"

// NotExportedRoute is the name of the row for those that a host is not exported to.
const NotExportedRoute = "not_exported"

// ClosedRoute begins the names of routes to what is closed rather than treated otherwise than was asked for. What follows
// is the reason; the tag TagPolicy has the object that is to be mended.
const ClosedRoute = "closed: "

// AnsweredLocally are the details of answers that a user's route gives by itself: nothing was handed on.
var AnsweredLocally = []string{"direct_response", "fault_filter_abort", "cors_response"}
