package envoylog

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// judgeInbound says what of a verdict is otherwise about what comes to a pod, by its own proxy: everything goes to the app that is not
// denied.
func (r *entry) judgeInbound() {
	if r.tags.authority != "" || r.tags.role == wire.RoleGateway {
		return // a waypoint's, about a host outside
	}
	r.Direction, r.Path = record.Lateral, record.PathMesh
	if r.Verdict == record.Allowed {
		r.Reason = "it came to the pod"
	}
}

// meant is the host that TLS between pods is for, by the name that it asks for: "outbound_.PORT_.SUBSET_.HOST". What the app's own TLS asks
// for is a host. By the name of a waypoint's before pods' own addresses it is for the address that was asked for.
func meant(sni string) string {
	if !strings.HasPrefix(sni, "outbound_.") {
		return sni
	}
	if sni == wire.PodsSNI {
		return ""
	}
	parts := strings.SplitN(sni, "_.", 4)
	return strings.TrimPrefix(parts[len(parts)-1], ".")
}

// comesIn says whether it is of what came into the mesh by an ingress gateway.
func (r *entry) comesIn() bool {
	switch r.place {
	case wire.IngressHTTP, wire.IngressTLS, wire.IngressTCP, wire.IngressUDP:
		return true
	default:
		return false
	}
}

// handshakeProblem says why TLS was not agreed on: Envoy rejects what it has no certificate for.
func handshakeProblem(envoy string) string {
	if strings.Contains(envoy, "CONNECTION_REJECTED") || strings.Contains(envoy, "CERT_CB_ERROR") {
		return "there is no certificate for the name that TLS asks for, or none that the client takes"
	}
	return "TLS was not agreed on: " + envoy
}

// judgeIngress says what of a verdict is otherwise about what comes in: which object leads it on, and that nobody's name is no
// registration that is missing.
func (r *entry) judgeIngress(policy string) {
	r.Direction, r.Path = record.Inbound, record.PathMesh
	switch {
	case r.Verdict == record.Allowed:
		r.Reason = "a route of the ingress gateway"
		if by := record.ParseObject(policy); by != (record.Object{}) {
			r.DecidedBy = by
		}
	case r.tags.handshake != "", r.unread(r.tags.role), r.Route == closed:
	case r.method == methodCONNECT && slices.Contains(r.Flags, "NR"): // of a name that it has, too
		r.Reason = "an ingress gateway takes no CONNECT"
	case r.Route == wire.MisdirectedRoute:
		r.Reason = "the connection was opened for another name"
	case r.DecidedBy == (record.Object{}) && r.Reason != "":
		r.Reason = "nobody has the name at this ingress gateway"
	}
}
