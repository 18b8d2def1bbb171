package fields

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

var sidecar = Kind{
	Name: "Sidecar", API: "networking.istio.io/v1", Message: &networking.Sidecar{},
	Fields: slices.Concat(
		applied("workloadSelector.labels", "egress.hosts", "egress.port.number", "outboundTrafficPolicy.mode"),
		idle("egress.port.name"),
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
			{Path: "ingress", Fate: Warned, Why: "connections to the pod go to the port of the app that they were made to", Fix: "remove it, and let the app listen on the port"},
			{Path: "inboundConnectionPool", Fate: Warned, Why: "connections to the pod are not limited by it", Fix: "remove it"},
		},
	),
}

// terminates says whether settings of a server ask for TLS that the proxy ends.
func terminates(v any) bool {
	t, ok := v.(*networking.ServerTLSSettings)
	return ok && t.Mode != networking.ServerTLSSettings_PASSTHROUGH && t.Mode != networking.ServerTLSSettings_AUTO_PASSTHROUGH
}
