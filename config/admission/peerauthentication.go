package admission

import (
	"fmt"
	"maps"
	"slices"

	security "istio.io/api/security/v1"
)

func (r *report) peerAuthentication(p *security.PeerAuthentication) {
	r.selector("spec.selector.matchLabels", p.GetSelector().GetMatchLabels())
	if len(p.PortLevelMtls) > 0 && len(p.GetSelector().GetMatchLabels()) == 0 {
		r.reject("spec.portLevelMtls", nil, "ports are told apart for workloads that a selector picks", "add selector.matchLabels")
	}
	for _, port := range slices.Sorted(maps.Keys(p.PortLevelMtls)) {
		if port == 0 || port > 65535 {
			r.reject(fmt.Sprintf("spec.portLevelMtls[%q]", fmt.Sprint(port)), port, "is no port", "write the pod's own port, 1…65535")
		}
	}
}

// checkMutualTLS says where a mesh without mutual TLS would take in plain text what has to be encrypted.
func (w *world) checkMutualTLS(r *report, p *security.PeerAuthentication) {
	if w.cfg.MutualTLS {
		return
	}
	strict := func(field string, m *security.PeerAuthentication_MutualTLS) {
		if m.GetMode() == security.PeerAuthentication_MutualTLS_STRICT {
			r.reject(field, m.Mode, "is not enforced in this mesh: plain text would be taken where only mutual TLS should be",
				"remove sallyport.mutualTLS: false from the mesh's settings, or write PERMISSIVE; NetworkPolicies say which pods may connect")
		}
	}
	strict("spec.mtls.mode", p.Mtls)
	for _, port := range slices.Sorted(maps.Keys(p.PortLevelMtls)) {
		strict(fmt.Sprintf("spec.portLevelMtls[%q].mode", fmt.Sprint(port)), p.PortLevelMtls[port])
	}
}
