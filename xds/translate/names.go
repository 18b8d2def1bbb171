package translate

import "strconv"

// The names that Istio's tools know.
const (
	virtualOutbound     = "virtualOutbound"
	virtualInbound      = "virtualInbound"
	passthroughCluster  = "PassthroughCluster"
	blackHoleCluster    = "BlackHoleCluster"
	inboundPassthrough  = "InboundPassthroughCluster"
	inboundPassthrough6 = "InboundPassthroughClusterIpv6"
	allowAnyRoute       = "allow_any"
	blockAllRoute       = "block_all"
	dynamicCluster      = "AllowAnyDynamicDNSCluster"
	clusterRoute        = "cluster_networks" // ours
	wrongProtocolRoute  = "wrong_protocol"   // ours, like those that follow
	byAddressRoute      = "by_address"
	madeUpRoute         = "made_up"
)

// Names of our own.
const (
	// ExitRoute is the gateway's table of hosts; its virtual hosts are resources of their own.
	ExitRoute = "https.443.egress"
)

// ClusterName is Istio's name for the cluster of a host's port.
func ClusterName(port uint32, host string) string {
	return "outbound|" + strconv.FormatUint(uint64(port), 10) + "||" + host
}

// subsetName is the name of a cluster that is one of several for a host's port; Istio's form.
func subsetName(port uint32, subset, host string) string {
	return "outbound|" + strconv.FormatUint(uint64(port), 10) + "|" + subset + "|" + host
}

// routeName is Istio's name for a sidecar's routes of a port.
func routeName(port uint32) string { return strconv.FormatUint(uint64(port), 10) }

// decideName is the internal listener, and the cluster in front of it, where a sidecar reads the names of a
// port's tunnels.
func decideName(port uint32) string { return "decide-" + routeName(port) }

// catchAllDecide is the same for ports without a listener of their own.
const catchAllDecide = "decide-any"

// vhostName is the name of a virtual host as a resource of its own: the route's name comes first.
func vhostName(route, host string) string { return route + "/" + host }

func hostPort(host string, port uint32) string { return host + ":" + routeName(port) }

// The places in the agent's bootstrap that configuration refers to.
const (
	xdsCluster = "xds-grpc"
	sdsCluster = "sds-grpc"
	alsCluster = "als-grpc"

	secretIdentity    = "default"          // the workload's certificate
	secretMeshRoots   = "ROOTCA"           // who may be a peer
	secretSystemRoots = "file-root:system" // whom the proxy's host trusts outside
)

// Keys of the filter state that travels from a connection to the internal listener behind it.
const (
	stateAuthority = "sallyport.authority" // what the client asked for, "host:port"
	statePeer      = "sallyport.peer"      // the client's verified SPIFFE id
	stateSource    = "sallyport.source"    // the client's address
	stateCluster   = "sallyport.cluster"   // where to, if the check passes
	statePort      = "sallyport.port"
	stateClient    = "sallyport.client" // the SPIFFE id of whoever made the connection, for its requests' routes

	stateQuestion = "sallyport.question" // kindTLS or kindTCP, of a question about a connection
	stateSubset   = "sallyport.subset"   // the namespace whose registration the client means
	stateDialled  = "sallyport.dialled"  // the address that the client connected to, where the host leads there

	stateTCPCluster  = "envoy.tcp_proxy.cluster"
	stateDynamicHost = "envoy.upstream.dynamic_host"
	stateDynamicPort = "envoy.upstream.dynamic_port"
	stateProtocols   = "envoy.network.application_protocols"
	stateServerName  = "envoy.network.upstream_server_name"
	stateOriginalDst = "envoy.network.transport_socket.original_dst_address"
)
