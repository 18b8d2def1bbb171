package admission

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// clientTLS checks what settings for TLS towards a server say against each other. What a proxy may do of them is found by
// Check.
func (r *report) clientTLS(field string, t *networking.ClientTLSSettings) {
	if t == nil {
		return
	}
	simple, mutual := t.Mode == networking.ClientTLSSettings_SIMPLE, t.Mode == networking.ClientTLSSettings_MUTUAL
	if t.InsecureSkipVerify.GetValue() {
		r.unverified(field, t, simple, mutual)
	}
	r.serverName(at(field, "sni"), t.Sni)
	r.atMost(at(field, "subjectAltNames"), len(t.SubjectAltNames), registry.MostNames, "names", "")
	r.credential(at(field, "credentialName"), t.CredentialName)
	files := map[string]string{"clientCertificate": t.ClientCertificate, "privateKey": t.PrivateKey, "caCertificates": t.CaCertificates, "caCrl": t.CaCrl}
	switch {
	case (simple || mutual) && t.CredentialName != "":
		for _, name := range sortedKeys(files) {
			if files[name] != "" {
				r.reject(at(field, name), files[name], "cannot be set together with credentialName", "remove one of the two")
			}
		}
	case mutual:
		for _, name := range []string{"clientCertificate", "privateKey"} {
			if files[name] == "" {
				r.reject(at(field, name), nil, "mode MUTUAL needs a client certificate", "write clientCertificate and privateKey, or credentialName with the name of a secret")
			}
		}
	case t.Mode == networking.ClientTLSSettings_ISTIO_MUTUAL:
		files["credentialName"] = t.CredentialName
		for _, name := range sortedKeys(files) {
			if files[name] != "" {
				r.warn(at(field, name), files[name], "has no effect with mode ISTIO_MUTUAL, which uses the workload's own certificate", "remove it, or set mode to MUTUAL")
			}
		}
	case t.Mode == networking.ClientTLSSettings_DISABLE:
		if t.Sni != "" || t.CredentialName != "" || t.CaCertificates != "" || len(t.SubjectAltNames) > 0 {
			r.warn(field, nil, "the other settings have no effect with mode DISABLE", "set mode to SIMPLE, or remove them")
		}
	}
}

// serverName judges the name that a server is asked for: Envoy refuses one that is too long, with all that came along (RFC 6066 section 3: it is one of DNS).
func (r *report) serverName(field, name string) {
	if len(name) > 255 {
		r.reject(field, name, fmt.Sprintf("has %d characters, at most 255 are allowed", len(name)), "write a host's name")
	}
	r.printable(field, name)
}

// unverified rejects what says how a server is checked beside what says that it is not. A credential may hold a client's
// certificate alone, with mode MUTUAL.
func (r *report) unverified(field string, t *networking.ClientTLSSettings, simple, mutual bool) {
	const contradicts = "has no effect while insecureSkipVerify is true"
	if (simple || mutual) && t.CaCertificates != "" {
		r.reject(at(field, "caCertificates"), t.CaCertificates, contradicts, "remove one of the two")
	}
	if (simple || mutual) && len(t.SubjectAltNames) > 0 {
		r.reject(at(field, "subjectAltNames"), nil, "have no effect while insecureSkipVerify is true", "remove one of the two")
	}
	if (simple || mutual) && t.CaCrl != "" {
		r.reject(at(field, "caCrl"), t.CaCrl, contradicts, "remove one of the two")
	}
	if simple && t.CredentialName != "" {
		r.reject(at(field, "credentialName"), t.CredentialName, contradicts, "remove one of the two")
	}
	r.warn(at(field, "insecureSkipVerify"), true, "the server's certificate is not checked: anyone on the way can read and change the traffic", "remove it, and name the server's CA in credentialName or caCertificates")
}

// credential holds those that are ConfigMaps to the rule's own namespace, as Secrets are by having no other name than their own.
func (r *report) credential(field, credential string) {
	name, is := strings.CutPrefix(credential, "configmap://")
	if !is {
		if credential != "" && !isObjectName(credential) {
			r.warn(field, credential, "is no Secret's name, so nothing is sent to the host", "write the name alone of a Secret in namespace "+r.of.Namespace+", or configmap://NAME")
		}
		return
	}
	ns, name, qualified := strings.Cut(name, "/")
	switch {
	case !qualified && ns == "", qualified && (ns == "" || name == "" || strings.Contains(name, "/")):
		r.reject(field, credential, "names no ConfigMap", "write configmap://NAME or configmap://NAMESPACE/NAME")
	case qualified && ns != r.of.Namespace:
		r.reject(field, credential, "is in another namespace", "use a ConfigMap of namespace "+r.of.Namespace)
	}
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

// checkRuleTLS warns of TLS that a rule asks for and that is not its to give: between pods of a mesh without mutual TLS, and around TLS of
// the client's own.
func (w *world) checkRuleTLS(r *report, d *networking.DestinationRule) {
	n := w.fullName(d.Host, r.of.Namespace)
	check := func(field string, t *networking.ClientTLSSettings, port uint32) {
		if t == nil || t.Mode == networking.ClientTLSSettings_DISABLE {
			return
		}
		if t.Mode == networking.ClientTLSSettings_ISTIO_MUTUAL && !w.cfg.MutualTLS && w.inside(n) {
			r.warn(at(field, "mode"), t.Mode, "connections between pods are not encrypted by the mesh, with this rule or without it", "remove sallyport.mutualTLS: false from the mesh's settings, or encrypt in the applications what must not be read inside the cluster")
		}
		for _, e := range w.hosts[n] {
			for _, p := range e.spec.Ports {
				if isTLS(strings.ToUpper(p.Protocol)) && port == p.Number && !w.requestsGo(n, port) {
					r.warn(field, nil, "has no effect on a port of TLS connections, which go on as the client made them", "register the port as HTTP or TCP if the proxy is to speak TLS, or remove it")
				}
			}
		}
	}
	whole := d.GetTrafficPolicy().GetTls()
	check("spec.trafficPolicy.tls", whole, 0)
	w.checkRulePorts(r, n, "spec.trafficPolicy", d.GetTrafficPolicy().GetPortLevelSettings())
	for i, s := range d.Subsets {
		w.checkRulePorts(r, n, at("spec.subsets", i, "trafficPolicy"), s.GetTrafficPolicy().GetPortLevelSettings())
	}
	for i, p := range d.GetTrafficPolicy().GetPortLevelSettings() {
		field := at("spec.trafficPolicy", "portLevelSettings", i)
		check(at(field, "tls"), p.GetTls(), p.GetPort().GetNumber())
		if p.GetTls() == nil && whole != nil && whole.Mode != networking.ClientTLSSettings_DISABLE {
			r.warn(field, p.GetPort().GetNumber(), "has no tls, and stands in for all of spec.trafficPolicy: the port is spoken to without the TLS that the rule has for all ports",
				"repeat spec.trafficPolicy.tls there, or write tls: {mode: DISABLE} to say that it is meant")
		}
	}
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
	check := func(field string, t *networking.ClientTLSSettings) {
		name := r.of.Namespace + "/" + t.GetCredentialName()
		if t.GetCredentialName() == "" || !w.secrets[r.of.Namespace+"/"] || w.secrets[name] || w.secrets[name+"-cacert"] {
			return
		}
		r.warn(at(field, "credentialName"), t.CredentialName, "there is no such Secret in the rule's namespace, so nothing is sent to the host", "create it with tls.crt, tls.key and ca.crt, or mend the name")
	}
	check("spec.trafficPolicy.tls", d.GetTrafficPolicy().GetTls())
	for i, p := range d.GetTrafficPolicy().GetPortLevelSettings() {
		check(at("spec.trafficPolicy", "portLevelSettings", i, "tls"), p.GetTls())
	}
}
