package config

import "slices"

// ownPorts are those that a pod's proxy and its agent take for themselves; Istio's: administration (15000), what leaves
// (15001), debugging (15004), what comes in (15006), tunnels (15008), metrics and health (15020), readiness (15021), DNS
// (15053), the proxy's statistics (15090).
var ownPorts = []uint32{15000, 15001, 15004, 15006, 15008, 15020, 15021, 15053, 15090}

// boundPorts are those among them at which the proxy itself listens. A second listener there is refused, so that
// nothing at all can be registered at them.
var boundPorts = []uint32{15001, 15006, 15090}

// IsOwnPort says whether a port is the proxy's or the agent's own in every pod, so that no host outside can have it.
func IsOwnPort(number uint32) bool { return slices.Contains(ownPorts, number) }

// innerPorts are those that the agent has on loopback only: there it answers Envoy's DNS.
var innerPorts = []uint32{15054}

// IsInnerPort says whether something of the proxy's or the agent's own may be behind a port of the pod's loopback, so that nobody is led there.
func IsInnerPort(number uint32) bool { return IsOwnPort(number) || slices.Contains(innerPorts, number) }

// IsBoundPort says whether the proxy itself listens at a port, so that no Service can have it either. (Gateways'
// Services usually have 15021.)
func IsBoundPort(number uint32) bool { return slices.Contains(boundPorts, number) }

// redirectPorts are those that a pod's traffic is redirected to, on its way out and in; Istio's.
var redirectPorts = []uint32{15001, 15006}

// RedirectPorts gives them, in order. Nothing is passed on to one of them, wherever: it would come back.
func RedirectPorts() []uint32 { return slices.Clone(redirectPorts) }

// tunnelPort is HBONE's, at which gateways have nothing.
const tunnelPort = 15008

// IsGatewayPort says whether a gateway's proxy or agent may listen at a port itself, so that no server of a Gateway has it: Envoy would
// refuse the listener, and with it the pod would not be ready.
func IsGatewayPort(number uint32) bool { return number != tunnelPort && IsInnerPort(number) }
