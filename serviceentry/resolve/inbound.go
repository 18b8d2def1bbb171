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
func InboundOf(text registry.Inbound) Inbound {
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

// Shows is how a connection that comes begins.
type Shows uint8

// The ways.
const (
	ShowsPlain  Shows = iota // without TLS
	ShowsMutual              // with TLS whose ALPN says that it is the mesh's
	ShowsTLS                 // with other TLS, which is the app's own
)

// Let is what happens to it.
type Let uint8

// The ways.
const (
	LetNothing  Let = iota // it is closed
	LetBytes               // its bytes go to the app
	LetRequests            // its requests do, one by one
	EndMutual              // its TLS ends here, after the client has shown who it is; then as with ShowsPlain, whatever the mode
)

// Lets says what happens to a connection to one of the pod's own ports.
func (in Inbound) Lets(port uint32, shows Shows) Let {
	if in.own(port) {
		return LetBytes
	}
	p := in.port(port)
	switch {
	case shows == ShowsMutual && p.Mode != registry.Disable:
		return EndMutual
	case p.Mode == registry.Strict:
		return LetNothing
	default:
		return p.inside(shows)
	}
}

// Led says whether something leads to one of the pod's own ports, so that it has a cluster of its own.
func (in Inbound) Led(port uint32) bool { return !in.Alone && in.port(port).Led }

// Inside says what happens to what a client of the mesh sends in its TLS.
func (in Inbound) Inside(port uint32) Let { return in.port(port).inside(ShowsPlain) }

func (in Inbound) port(number uint32) inboundPort {
	if i := slices.IndexFunc(in.Ports, func(p registry.InboundPort) bool { return p.Number == number }); i >= 0 {
		return inboundPort(in.Ports[i])
	}
	return inboundPort{Number: number, Mode: in.Mode}
}

type inboundPort registry.InboundPort

// inside is what happens where the mode does not ask for more. Where requests are read nothing else gets past whoever reads them, in TLS of its own
// neither.
func (p inboundPort) inside(shows Shows) Let {
	switch {
	case !p.HTTP:
		return LetBytes
	case shows == ShowsPlain:
		return LetRequests
	default:
		return LetNothing
	}
}

// OnlyMutual says whether what is closed at a port is so because it is not mutual TLS of the mesh; otherwise it is TLS where requests are read.
func (in Inbound) OnlyMutual(port uint32) bool { return in.port(port).Mode == registry.Strict }
