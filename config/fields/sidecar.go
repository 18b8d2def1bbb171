package fields

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

var sidecar = Kind{
	Name: "Sidecar", API: "networking.istio.io/v1", Message: &networking.Sidecar{},
	Fields: slices.Concat(
		applied("workloadSelector.labels", "egress.hosts", "egress.port.number", "outboundTrafficPolicy.mode", "ingress.port.number", "ingress.port.protocol"),
		idle("egress.port.name", "ingress.port.name"),
		[]Field{
			{Path: "egress.port.protocol", Fate: Idle, Why: "a host's ports speak what they were registered with"},
			{Path: "egress.port.targetPort", Fate: Idle, Why: "the API calls it without effect, and it is rejected"},
			{Path: "egress.bind", Fate: Idle, When: is("0.0.0.0", "::"), Why: "connections are caught wherever they go"},
			{Path: "egress.bind", Fate: Warned, Why: "nothing listens there, and the listener's hosts are not reached by it",
				Fix: "remove it: connections to the hosts are caught wherever they go"},
			{Path: "egress.captureMode", Fate: Idle, When: is("DEFAULT", "IPTABLES"), Why: "connections are caught by iptables"},
			{Path: "egress.captureMode", Fate: Warned, Why: "nothing listens beside the connections that are caught, and the listener's hosts are not reached by it",
				Fix: "remove it: connections to the hosts are caught wherever they go"},
			{Path: "outboundTrafficPolicy.egressProxy", Fate: Warned, Why: "hosts that nobody registered are closed, and not reached by the proxy that it names",
				Fix: "remove it, and register the hosts: they leave by the egress gateway"},
			{Path: "ingress.tls", Fate: Refused, When: terminates, Why: "connections to the port would be taken as they come, without TLS and without a look at the client's certificate",
				Fix: "remove it, and let the app speak TLS itself"},
			{Path: "ingress.tls", Fate: Idle, Why: "TLS goes on to the app as it came"},
			{Path: "ingress.port.targetPort", Fate: Idle, Why: "the API calls it without effect, and it is rejected"},
			{Path: "ingress.defaultEndpoint", Fate: Warned, When: isSocket, Why: "connections go to the port that they were made to: sockets that the proxy can open are its agent's",
				Fix: "let the app listen at a port of 127.0.0.1, and write that"},
			{Path: "ingress.defaultEndpoint", Fate: Applied, Why: "at a port of loopback, or at another port of the pod's own address"},
			{Path: "ingress.bind", Fate: Idle, When: is("0.0.0.0", "::"), Why: "connections are caught wherever they come to"},
			{Path: "ingress.bind", Fate: Warned, Why: "the port is the same at all addresses of the pod", Fix: "remove it: connections are caught wherever they come to"},
			{Path: "ingress.captureMode", Fate: Idle, When: is("DEFAULT", "IPTABLES"), Why: "connections are caught by iptables"},
			{Path: "ingress.captureMode", Fate: Warned, Why: "the port is caught like others", Fix: "remove it, or leave the port out with traffic.sidecar.istio.io/excludeInboundPorts"},
			{Path: "ingress.connectionPool", Fate: Warned, Why: "connections to the pod are not limited by it", Fix: "remove it"},
			{Path: "inboundConnectionPool", Fate: Warned, Why: "connections to the pod are not limited by it", Fix: "remove it"},
		},
	),
}

// isSocket says whether a text names a Unix socket.
func isSocket(v any) bool {
	s, _ := v.(string)
	return strings.HasPrefix(s, "unix:")
}

// terminates says whether settings of a server ask for TLS that the proxy ends.
func terminates(v any) bool {
	t, ok := v.(*networking.ServerTLSSettings)
	return ok && t.Mode != networking.ServerTLSSettings_PASSTHROUGH && t.Mode != networking.ServerTLSSettings_AUTO_PASSTHROUGH
}
