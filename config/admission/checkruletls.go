package admission

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/host"
)

// What is said of a DestinationRule's TLS among other objects: where it is not its to give, and where it closes, or leaves plain, what others ask for.

// eachTLS goes through the settings of a rule, each with the port that it is for, 0 for all.
func eachTLS(d *networking.DestinationRule, do func(field string, t *networking.ClientTLSSettings, port uint32)) {
	if t := d.GetTrafficPolicy().GetTls(); t != nil {
		do("spec.trafficPolicy.tls", t, 0)
	}
	for i, p := range d.GetTrafficPolicy().GetPortLevelSettings() {
		if p.GetTls() != nil {
			do(at("spec.trafficPolicy", "portLevelSettings", i, "tls"), p.Tls, p.GetPort().GetNumber())
		}
	}
}

// tlsFor gives what a rule says for a port, which is as registry.DestinationRule has it.
func tlsFor(d *networking.DestinationRule, port uint32) *networking.ClientTLSSettings {
	for _, p := range d.GetTrafficPolicy().GetPortLevelSettings() {
		if p.GetPort().GetNumber() == port {
			return p.GetTls()
		}
	}
	return d.GetTrafficPolicy().GetTls()
}

// SpeaksOtherTLS says whether a rule has something else spoken to a host than mutual TLS of the mesh: TLS of another kind, or none.
func SpeaksOtherTLS(d *networking.DestinationRule) (other bool) {
	eachTLS(d, func(_ string, t *networking.ClientTLSSettings, _ uint32) {
		other = other || t.Mode != networking.ClientTLSSettings_ISTIO_MUTUAL
	})
	return other
}

// checkRuleTLS warns of TLS that a rule asks for and that is not its to give: between pods of a mesh without mutual TLS, around TLS of
// the client's own, and to an egress gateway.
func (w *world) checkRuleTLS(r *report, d *networking.DestinationRule) {
	n := w.fullName(d.Host, r.of.Namespace)
	exit := w.isExit(n)
	eachTLS(d, func(field string, t *networking.ClientTLSSettings, port uint32) {
		if exit {
			r.towardsExit(field, t)
			return
		}
		if t.Mode == networking.ClientTLSSettings_DISABLE {
			return
		}
		if t.Mode == networking.ClientTLSSettings_ISTIO_MUTUAL && !w.cfg.MutualTLS && w.inside(n) {
			r.warn(at(field, "mode"), t.Mode, "connections between pods are not encrypted by the mesh, with this rule or without it", "remove sallyport.mutualTLS: false from the mesh's settings, or encrypt in the applications what must not be read inside the cluster")
		}
		w.checkIdentities(r, field, t, n)
		if w.ownTLS(n, port) {
			r.warn(field, nil, "has no effect on a port of TLS connections, which go on as the client made them", "register the port as HTTP or TCP if the proxy is to speak TLS, or remove it")
		}
	})
	policy := d.GetTrafficPolicy()
	w.checkRulePorts(r, n, "spec.trafficPolicy", policy.GetPortLevelSettings())
	for i, s := range d.Subsets {
		w.checkRulePorts(r, n, at("spec.subsets", i, "trafficPolicy"), s.GetTrafficPolicy().GetPortLevelSettings())
	}
	for i, p := range policy.GetPortLevelSettings() {
		number := p.GetPort().GetNumber()
		if p.GetTls() == nil && w.encrypts(policy.GetTls(), n) && !w.ownTLS(n, number) && !exit {
			r.warn(at("spec.trafficPolicy", "portLevelSettings", i), number, "has no tls, and stands in for all of spec.trafficPolicy: the port is spoken to without the TLS that the rule has for all ports",
				"repeat spec.trafficPolicy.tls there, or write tls: {mode: DISABLE} to say that it is meant")
		}
	}
	if !exit {
		w.checkStrict(r, d, n)
	}
}

// towardsExit says that no rule changes how a gateway is spoken to that others' traffic leaves by.
func (r *report) towardsExit(field string, t *networking.ClientTLSSettings) {
	const is = "between pods' proxies and an egress gateway there is mutual TLS of the mesh, whatever rules say: "
	switch {
	case t.Mode != networking.ClientTLSSettings_ISTIO_MUTUAL:
		r.warn(at(field, "mode"), t.Mode, is+"this has no effect on what leaves by it", "remove it, or write ISTIO_MUTUAL; a rule for a host outside says how that one is spoken to")
	case len(t.SubjectAltNames) > 0:
		r.warn(at(field, "subjectAltNames"), strings.Join(t.SubjectAltNames, ", "), is+"the gateway is known by its own service accounts, and these have no effect", "remove them")
	}
}

// isExit says whether a host is the Service of an egress gateway.
func (w *world) isExit(n host.Name) bool {
	if w.exitHosts == nil {
		w.exitHosts = w.findExitHosts()
	}
	return w.exitHosts[n]
}

// encrypts says whether what is sent to a host by settings would go in another way without them. Mutual TLS of the mesh is what proxies speak by themselves, where the
// mesh's settings do not turn that off.
func (w *world) encrypts(t *networking.ClientTLSSettings, n host.Name) bool {
	switch t.GetMode() {
	case networking.ClientTLSSettings_SIMPLE, networking.ClientTLSSettings_MUTUAL:
		return true
	case networking.ClientTLSSettings_ISTIO_MUTUAL:
		return w.cfg.MutualTLS && !w.cfg.AutoMTLS && w.inside(n)
	default:
		return false
	}
}

// ownTLS says whether clients of a registered host speak TLS to a port themselves, and no proxy does.
func (w *world) ownTLS(n host.Name, port uint32) bool {
	for _, e := range w.hosts[n] {
		for _, p := range e.spec.Ports {
			if p.Number == port && isTLS(strings.ToUpper(p.Protocol)) {
				return !w.requestsGo(n, port)
			}
		}
	}
	return false
}

// requestsGo says whether a route of requests leads to a port of a host: whoever follows it speaks TLS there himself, as rules say.
func (w *world) requestsGo(n host.Name, port uint32) bool {
	if w.ledRequests == nil {
		w.ledRequests = map[host.Name][]uint32{}
		for _, o := range w.objects {
			v, is := o.Spec.(*networking.VirtualService)
			if !is {
				continue
			}
			for _, h := range v.Http {
				for _, d := range h.Route {
					to := w.fullName(d.GetDestination().GetHost(), o.Namespace)
					w.ledRequests[to] = append(w.ledRequests[to], d.GetDestination().GetPort().GetNumber())
				}
			}
		}
	}
	return slices.ContainsFunc(w.ledRequests[n], func(to uint32) bool { return to == port || to == 0 })
}

// inside says whether a host is a Service's, or an entry's of the mesh.
func (w *world) inside(n host.Name) bool {
	if strings.HasSuffix(string(n), "."+clusterDomain) || strings.HasSuffix(string(n), ".local") {
		return true
	}
	for _, e := range w.hosts[n] {
		if !e.external() {
			return true
		}
	}
	return false
}

// checkCredential warns of a Secret that is not there, where the input has others of its namespace.
func (w *world) checkCredential(r *report, d *networking.DestinationRule) {
	eachTLS(d, func(field string, t *networking.ClientTLSSettings, _ uint32) {
		name := r.of.Namespace + "/" + t.CredentialName
		if t.CredentialName == "" || !w.secrets[r.of.Namespace+"/"] || w.secrets[name] || w.secrets[name+"-cacert"] {
			return
		}
		r.warn(at(field, "credentialName"), t.CredentialName, "there is no such Secret in the rule's namespace, so nothing is sent to the host", "create it with tls.crt, tls.key and ca.crt, or mend the name")
	})
}
