package wire

import (
	"slices"
	"strconv"
	"strings"
)

// The ports that a pod's traffic is redirected to; Istio's.
const (
	OutboundPort = 15001
	InboundPort  = 15006
	HBONEPort    = 15008 // HBONE
)

// MostHost is how many bytes a host's name has at most, without the root's dot (RFC 1035 section 2.3.4, as text). What requests say may be longer, and is then nobody's.
const MostHost = 253

// ProxyMark is what a node's proxy marks its connections in a pod's network with, so that the pod's rules let them pass; Istio's.
const ProxyMark = 0x539

// The names that Istio's tools know.
const (
	VirtualOutbound     = "virtualOutbound"
	VirtualInbound      = "virtualInbound"
	PassthroughCluster  = "PassthroughCluster"
	BlackHoleCluster    = "BlackHoleCluster"
	NoCluster           = "sallyport-no-cluster" // no proxy has it
	InboundPassthrough  = "InboundPassthroughCluster"
	InboundPassthrough6 = "InboundPassthroughClusterIpv6"
	AllowAnyRoute       = "allow_any"
	BlockAllRoute       = "block_all"
	DynamicCluster      = "AllowAnyDynamicDNSCluster"
	ClusterRoute        = "cluster_networks" // ours
	PodRoute            = "pod"              // ours: a pod's own address, by its waypoint
	WrongProtocolRoute  = "wrong_protocol"   // ours, like those that follow
	ByAddressRoute      = "by_address"
	MadeUpRoute         = "made_up"
	LoopRoute           = "loop"
	PolicyRoute         = "policy"      // a policy's rule denies it
	NoRoute             = "no_route"    // none of a user's routes means it
	MisdirectedRoute    = "misdirected" // a request over a connection that was opened for another name
)

// IsReservedRoute says whether a route's name has a meaning in the log, so that no user's route may have it.
func IsReservedRoute(name string) bool {
	return strings.HasPrefix(name, ClosedRoute) || slices.Contains([]string{
		AllowAnyRoute, BlockAllRoute, ClusterRoute, WrongProtocolRoute, ByAddressRoute, MadeUpRoute, LoopRoute, NoRoute, NotExportedRoute, MisdirectedRoute,
	}, name)
}

// Names of our own.
const (
	// ExitRoute is the gateway's table of hosts; its virtual hosts are resources of their own.
	ExitRoute = "https.443.egress"
)

// ClusterName is Istio's name for the cluster of a host's port.
func ClusterName(port uint32, host string) string {
	return "outbound|" + strconv.FormatUint(uint64(port), 10) + "||" + host
}

// WaypointListener is Istio's name for where a waypoint takes HBONE; ours of the table of it, too.
const WaypointListener = "connect_terminate"

// WaypointName is Istio's name for what a waypoint does at a Service's port: of requests "http", and else "tcp".
func WaypointName(port uint32, kind, host string) string {
	return "inbound-vip|" + strconv.FormatUint(uint64(port), 10) + "|" + kind + "|" + host
}

// InboundName is Istio's name for the cluster of a pod's own port, and for the routes that lead there.
func InboundName(port uint32) string { return "inbound|" + strconv.FormatUint(uint64(port), 10) + "||" }

// The protocols that proxies of a mesh offer each other in TLS (ALPN), besides those that are spoken inside; Istio's. By them a pod's proxy
// knows TLS that is meant for it from its app's own.
const (
	ALPNMesh      = "istio"
	ALPNMeshTCP   = "istio-peer-exchange"
	ALPNMeshHTTP  = "istio-http/1.1"
	ALPNMeshHTTP2 = "istio-h2"
)

// MeshALPN are all of them.
var MeshALPN = []string{ALPNMesh, ALPNMeshTCP, "istio-http/1.0", ALPNMeshHTTP, ALPNMeshHTTP2}

// SubsetName is the name of a cluster that is one of several for a host's port; Istio's form. What those below put in a subset's place has a
// dot, which no subset of a DestinationRule has.
func SubsetName(port uint32, subset, host string) string {
	return "outbound|" + strconv.FormatUint(uint64(port), 10) + "|" + subset + "|" + host
}

// OwnCluster is the name of a cluster that is another one to a namespace with tables of its own, at the proxy of a node, than to everybody.
func OwnCluster(namespace, cluster string) string {
	parts := strings.SplitN(cluster, "|", 4)
	if len(parts) < 4 {
		return OwnName(namespace, cluster)
	}
	parts[2] = "own." + namespace + "." + parts[2]
	return strings.Join(parts, "|")
}

// OwnName is that of a table, or of what asks it, that is for the pods of one namespace; itself for "".
func OwnName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return name + ownMark + namespace
}

const ownMark = "~"

// SharedName is what a table of one namespace stands in for; itself of others.
func SharedName(name string) string {
	shared, _, _ := strings.Cut(name, ownMark)
	return shared
}

// GatewayCluster is the name of the cluster of the way to an egress gateway's port. A borrowed one, which its owner does not
// name as a gateway, has a cluster beside the one that it has as a service.
func GatewayCluster(port uint32, host string, borrowed bool) string {
	if borrowed {
		return SubsetName(port, "egress.", host)
	}
	return ClusterName(port, host)
}

// WrappedCluster is the name of a cluster in which a proxy speaks TLS for requests, at a port where apps do otherwise: for the
// routes of a host, to a destination whose registration is of a namespace, where that is to be told.
func WrappedCluster(port uint32, host, to, namespace string) string {
	subset := "http." + namespace
	if host != to {
		subset += "." + host
	}
	return SubsetName(port, subset, to)
}

// RoutedCluster is the name of a cluster for a port of a host that nobody gets to but by the routes of a namespace which let the host out; TLS
// or not is spoken there for requests.
func RoutedCluster(port uint32, host, to, namespace string, tls bool) string {
	if tls {
		return WrappedCluster(port, host, to, "wrapped_"+namespace)
	}
	return WrappedCluster(port, host, to, "routed_"+namespace)
}

// UntouchedCluster is the name of a cluster for TLS that goes on as it is, at a port for which a proxy speaks TLS otherwise.
func UntouchedCluster(port uint32, subset, host string) string {
	return SubsetName(port, "untouched."+subset, host)
}

// DatagramCluster is the name of a cluster of a host's port for UDP, as it is led to from one of a gateway's.
func DatagramCluster(from, port uint32, host string) string {
	return SubsetName(port, "udp."+RouteName(from), host)
}

// DatagramEndpoints is the name of the endpoints of all of them; a port for TCP may have the same number.
func DatagramEndpoints(port uint32, host string) string { return SubsetName(port, "udp.", host) }

// WaypointEndpoints is the name of the endpoints of a cluster that leads to a waypoint, whose Service is given. It is not the cluster's own, by which its endpoints past any waypoint are known: Envoy
// hands what comes by a name to all that it has by it, and would lead what is in use until the new cluster is warm to where nobody understands it.
func WaypointEndpoints(cluster, waypoint string) string { return cluster + byMark + waypoint }

// WrappedEndpoints is the name of the endpoints of a cluster that wraps in TLS what clients say in plain text, and so leads to another port than one that does not: as
// of a waypoint's, what comes by it must not reach the cluster that is in use until the new one is warm.
func WrappedEndpoints(cluster string) string { return cluster + byMark + "tls" }

// ClusterOfEndpoints is the cluster that endpoints are of, by their name.
func ClusterOfEndpoints(name string) string {
	cluster, _, _ := strings.Cut(name, byMark)
	return cluster
}

const byMark = "@"

// DatagramListener is the name of a gateway's listener for UDP.
func DatagramListener(port uint32) string { return "udp_0.0.0.0_" + RouteName(port) }

// RouteName is Istio's name for a sidecar's routes of a port.
func RouteName(port uint32) string { return strconv.FormatUint(uint64(port), 10) }

// DecideName is the internal listener, and the cluster in front of it, where a sidecar reads the names of a
// port's tunnels.
func DecideName(port uint32) string { return decidePrefix + RouteName(port) }

const decidePrefix = "decide-"

// DecideFormat is a format string for it, of the port that a connection goes to.
const DecideFormat = decidePrefix + "%DOWNSTREAM_LOCAL_PORT%"

// IsDecide says whether a cluster is the way to a port's questions.
func IsDecide(cluster string) bool {
	port, is := strings.CutPrefix(cluster, decidePrefix)
	_, err := strconv.ParseUint(port, 10, 16)
	return is && err == nil
}

// HostOf is the host that a cluster is for, by its name; "" of one that is for none.
func HostOf(cluster string) string {
	if parts := strings.SplitN(cluster, "|", 4); len(parts) == 4 && parts[0] == "outbound" {
		return parts[3]
	}
	return ""
}

// AgainName is the internal listener, and the cluster in front of it, where requests come again whose host's row was
// fetched meanwhile.
func AgainName(port uint32) string { return "again-" + RouteName(port) }

// FetchName is the internal listener, and the cluster in front of it, by which questions come again.
const FetchName = "fetch"

// FetchRoute takes what no row of a table that is fetched on use is for. The log shows it where that ended there.
const FetchRoute = ClosedRoute + "what is registered for it could not be had: the proxy's agent does not answer, or Envoy refused it"

// CatchAllDecide is the same for ports without a listener of their own.
const CatchAllDecide = "decide-any"

// WaypointDecide is the same at a waypoint, about hosts outside.
const WaypointDecide = "decide-outside"

// WaypointAgain is where a waypoint is asked by its agent whether what is under way for a host outside may be there: of AuthorizationPolicies, too, which are asked before there is a question when it begins.
const WaypointAgain = "decide-outside-again"

// PassthroughSource is the address that a sidecar connects to its app from, and what it makes once more; Istio's. PassthroughSource6 is that of IPv6.
const (
	PassthroughSource  = "127.0.0.6"
	PassthroughSource6 = "::6"
)

// SilentName is the internal listener, and the cluster in front of it, where a pod's proxy waits longer for clients that are slow to begin.
const SilentName = "outbound-silent"

// SilentAgain is the cluster by which their connections are made once more when they have begun.
const SilentAgain = "outbound-silent-again"

// LeavingDecide is where a sidecar, a node or a waypoint is asked by its agent what policies say of a request that leaves from there.
const LeavingDecide = "decide-leaving"

// ExitDecide is the same at a gateway.
const ExitDecide = "decide-egress"

// VhostName is the name of a virtual host as a resource of its own: the route's name comes first.
func VhostName(route, host string) string { return route + "/" + host }

// HostPort is a host with a port.
func HostPort(host string, port uint32) string { return host + ":" + RouteName(port) }

// The places in the agent's bootstrap that configuration refers to.
const (
	XDSCluster = "xds-grpc"
	SDSCluster = "sds-grpc"
	ALSCluster = "als-grpc"
	// UnderWayCluster is where an exit's agent takes note of requests that are under way (EndsMetadata).
	UnderWayCluster = "under-way-grpc"

	SecretIdentity    = "default"          // the workload's certificate
	SecretMeshRoots   = "ROOTCA"           // who may be a peer
	SecretSystemRoots = "file-root:system" // whom the proxy's host trusts outside
)

// Keys of the filter state that travels from a connection to the internal listener behind it.
const (
	StateAuthority = "sallyport.authority" // what the client asked for, "host:port"
	StateConfig    = "sallyport.config"    // the object that says where a CONNECT goes, for the log of what cannot go there
	StatePeer      = "sallyport.peer"      // the client's verified SPIFFE id
	StateSource    = "sallyport.source"    // the client's address
	StateCluster   = "sallyport.cluster"   // where to, if the check passes
	StatePort      = "sallyport.port"
	StateTunnel    = "sallyport.tunnel" // what TagTunnel says
	StateRules     = "sallyport.rules"  // what policies said when it was asked about
	StateClient    = "sallyport.client" // the SPIFFE id of whoever made the connection, for its requests' routes

	StateOpenedFor = "sallyport.opened_for" // the name that a connection was opened for (SNI), where such share a table

	StateQuestion = "sallyport.question"  // "tls" or "tcp", of a question about a connection
	StateFrom     = "sallyport.from"      // the client's address, without its port
	StateHost     = "sallyport.host"      // the host that is asked for, in lower case
	StateAt       = "sallyport.at"        // the port that is asked for, after a colon and whatever
	StateOutside  = "sallyport.outside"   // says at a sidecar that it leaves the mesh from there (Leaves), and anywhere LetOutByPolicy
	StateSpoken   = "sallyport.spoken"    // "tls" or "tcp", of a connection; nothing of a request
	StateSubset   = "sallyport.subset"    // the namespace whose registration the client means
	StateUnderWay = "sallyport.under_way" // as what a request came: "METHOD REGISTERED-IN AUTHORITY PATH#MILLISECONDS", the last of those alone that have come whole; where no exit is, OUTSIDE is in REGISTERED-IN's place
	StateEnds     = "sallyport.ends"      // how long a request may go on, in milliseconds, by the rules that let it through
	StateFetched  = "sallyport.fetched"   // of a request that comes again: its host's row was fetched, if there is one
	StateLacks    = "sallyport.lacks"     // of a question at a gateway: no row that is there is for it, and one may be that was not fetched
	StateDialled  = "sallyport.dialled"   // the address that the client connected to, where the host leads there

	StateTable  = "sallyport.table"  // the table of the port that a pod's connection goes to: at a node's proxy, and of a silent client's
	StateSilent = "sallyport.silent" // "yes" as long as a pod's client has said nothing, then "no"
	StateDoor   = "sallyport.door"   // the proxy's own end of a silent client's connection

	StatePod = "sallyport.pod" // NAMESPACE/NAME of the pod that a connection at a node's proxy is of
	// StateIdentity names the certificate that a node's proxy shows for a pod, and StateNetwork the network namespace that it connects
	// from: Envoy's names.
	StateIdentity = "envoy.tls.certificate_mappers.on_demand_secret"
	StateNetwork  = "envoy.network.upstream_bind_override.network_namespace"

	StateTCPCluster  = "envoy.tcp_proxy.cluster"
	StateDynamicHost = "envoy.upstream.dynamic_host"
	StateDynamicPort = "envoy.upstream.dynamic_port"
	StateProtocols   = "envoy.network.application_protocols"
	StateServerName  = "envoy.network.upstream_server_name"
	StateOriginalDst = "envoy.network.transport_socket.original_dst_address"
)

// The values of StateOutside.
const (
	Leaves         = "1" // for a host that somebody registered, or by outboundTrafficPolicy
	LetOutByPolicy = "2" // for one that nobody registered, and that only rules of EgressPolicies let out
)

// ClusterDomain is what all names of a cluster are below: its own DNS answers them, and sends nothing of them out.
const ClusterDomain = "cluster.local"

// IngressTable is the table of an ingress gateway's port: of plain requests, of those inside of TLS that it ends in the usual way, or
// of connections by their TLS name, or as they come.
func IngressTable(kind string, port uint32) string { return kind + "." + RouteName(port) }

// The kinds of such tables; Istio's where it has them.
const (
	TableRequests    = "http"
	TableTLSRequests = "https"
	TableTLS         = "tls"
	TableTCP         = "tcp"
	TableMesh        = "mesh"
)

// IngressAny is what is looked up in the table of a port whose connections say nothing.
const IngressAny = "any"
