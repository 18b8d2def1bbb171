package wire

// TunnelName is the TLS name by which a tunnel says whereto it wants, "outbound_.PORT_.SUBSET_.HOST", in its parts: what
// comes before the subset, and before the host. The subset is the namespace whose registration is meant, where several
// registered the host, and the address that the client connected to, where that counts: "NAMESPACE~ADDRESS:PORT".
func TunnelName(port uint32, subset string) (toSubset, toHost string) {
	toSubset = "outbound_." + RouteName(port) + "_." + subset
	return toSubset, toSubset + "_."
}

// HeaderRegisteredIn tells a gateway which namespace's registration of a host a sidecar follows, where several
// namespaces registered it. It is no order (see xds/envoy/proxyheaders.go) and no proof of anything: each registration's routes let in
// whom it is exported to.
const HeaderRegisteredIn = "sallyport-registered-in"

// HeaderDialled tells a gateway the address, with its port, that a client chose among those of a service with resolution NONE: a
// tunnel's name does (TunnelName), or a CONNECT. It is what the client says it wants; the gateway holds it against the
// addresses that were written for the host.
const HeaderDialled = "sallyport-dialled"

// The headers of a question about a connection, beside HeaderRegisteredIn and HeaderDialled. Nobody else's request gets to where they are
// read, so nobody else can write them.
const (
	HeaderKind = "x-sallyport-kind" // KindTLS or KindTCP
	HeaderPeer = "x-sallyport-peer" // the client, as the gateway verified it
	HeaderFrom = "x-sallyport-from" // the client's address

	HeaderOutside = "x-sallyport-outside" // StateOutside, of what leaves where no exit is

	HeaderRequest = "x-sallyport-request" // KindHTTP, in place of a kind: policies judge the question as the request that it is about
)

// By these, beside HeaderPeer and HeaderFrom, an exit's Envoy tells its agent of a request that is under way (docs/adr/0108-requests-under-way-end.md).
const (
	HeaderUnderWay = "x-sallyport-under-way" // as what it came: StateUnderWay
	HeaderBegan    = "x-sallyport-began"     // when, in seconds with nine digits after the point
)

// EndsMetadata is the key of the node metadata by which an agent says that it takes note of them.
const EndsMetadata = "SALLYPORT_ENDS_REQUESTS"

// EndsTunnels is its value where the agent takes note of tunnels, too, that share their connection (HBONE); any other one says that it does of requests alone.
const EndsTunnels = "tunnels"

// EndsConnectionsMetadata is the key of the node metadata by which an agent says whether connections whose bytes nobody reads can be ended beside its Envoy, EndsNone that they cannot. Agents that
// do not know it say nothing.
const (
	EndsConnectionsMetadata = "SALLYPORT_ENDS_CONNECTIONS"
	EndsNone                = "false"
	EndsTraced              = "traced" // by tracing Envoy alone, which the mesh's settings may forbid
	EndsAll                 = "true"
)

// What the agent ends is recorded with one of these as Envoy's details. After EndedDetails comes why, as a query's value is written: Envoy takes no spaces.
const (
	EndedDetails    = "sallyport_ended:"
	TooManyDetails  = "sallyport_too_many"
	NoTunnelDetails = "sallyport_no_tunnel" // a CONNECT that no row takes; why is the row's to say
)

// What a question says of the bytes.
const (
	KindTLS = "tls" // they begin with a ClientHello
	KindTCP = "tcp" // nobody looked

	KindHTTP = "http" // a request began them, and they are its connection's until its end: an upgrade
)

// What a tunnel between sidecar and gateway offers in ALPN (RFC 7301): it tells tunnels from requests, and whether what is
// inside begins with a ClientHello, which the gateway then reads.
const (
	ALPNTLS = "sallyport-tls"
	ALPNTCP = "sallyport-tcp"
)
