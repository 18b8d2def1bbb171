package resolve

import (
	"slices"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Inbound is what a workload's own proxy does about what comes for its app.
type Inbound struct {
	Mode       registry.MTLSMode // of all ports but Ports
	Ports      []registry.InboundPort
	Authorized bool // AuthorizationPolicies are asked
	Alone      bool // no agent is in the pod: none of its ports are the agent's
}

// InboundOf is that of workloads with this text.
func InboundOf(text registry.InboundKey) Inbound {
	mode, ports := text.Parse()
	return Inbound{Mode: mode, Ports: ports, Authorized: text.Asks()}
}

// Authorizes says whether AuthorizationPolicies are asked about what comes to a port, or with 0 to those that nothing is said of.
func (in Inbound) Authorizes(port uint32) bool {
	return in.Authorized && !in.own(port)
}

// own says whether a port is the agent's.
func (in Inbound) own(port uint32) bool {
	return !in.Alone && slices.Contains(registry.AgentPorts, port)
}

// Transport is how a connection that comes begins.
type Transport uint8

// The ways.
const (
	TransportPlain     Transport = iota // without TLS
	TransportMutualTLS                  // with TLS whose ALPN says that it is the mesh's
	TransportTLS                        // with other TLS, which is the app's own
)

// InboundAction is what happens to it.
type InboundAction uint8

// The ways.
const (
	CloseConnection    InboundAction = iota // it is closed
	ProxyBytes                              // its bytes go to the app
	ProxyRequests                           // its requests do, one by one
	TerminateMutualTLS                      // its TLS ends here, after the client has shown who it is; then as with TransportPlain, whatever the mode
)

// Action says what happens to a connection to one of the pod's own ports.
func (in Inbound) Action(port uint32, shows Transport) InboundAction {
	if in.own(port) {
		return ProxyBytes
	}
	p := in.port(port)
	switch {
	case shows == TransportMutualTLS && p.Mode != registry.Disable:
		return TerminateMutualTLS
	case p.Mode == registry.Strict:
		return CloseConnection
	default:
		return p.inside(shows)
	}
}

// HasCluster says whether something leads to one of the pod's own ports, so that it has a cluster of its own.
func (in Inbound) HasCluster(port uint32) bool { return !in.Alone && in.port(port).Led }

// Inside says what happens to what a client of the mesh sends in its TLS.
func (in Inbound) Inside(port uint32) InboundAction { return in.port(port).inside(TransportPlain) }

func (in Inbound) port(number uint32) inboundPort {
	if i := slices.IndexFunc(in.Ports, func(p registry.InboundPort) bool { return p.Number == number }); i >= 0 {
		return inboundPort(in.Ports[i])
	}
	return inboundPort{Number: number, Mode: in.Mode}
}

type inboundPort registry.InboundPort

// inside is what happens where the mode does not ask for more. Where requests are read nothing else gets past whoever reads them, in TLS of its own
// neither.
func (p inboundPort) inside(shows Transport) InboundAction {
	switch {
	case !p.HTTP:
		return ProxyBytes
	case shows == TransportPlain:
		return ProxyRequests
	default:
		return CloseConnection
	}
}

// OnlyMutual says whether what is closed at a port is so because it is not mutual TLS of the mesh; otherwise it is TLS where requests are read.
func (in Inbound) OnlyMutual(port uint32) bool { return in.port(port).Mode == registry.Strict }
