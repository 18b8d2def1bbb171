package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// clientTLS checks what settings for TLS towards a server say against each other. What a proxy may do of them is found by
// Check.
func (r *report) clientTLS(field string, t *networking.ClientTLSSettings) {
	if t == nil {
		return
	}
	simple, mutual := t.Mode == networking.ClientTLSSettings_SIMPLE, t.Mode == networking.ClientTLSSettings_MUTUAL
	if t.InsecureSkipVerify.GetValue() && (simple || mutual) {
		r.unverified(field, t, simple)
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
	case simple:
		for _, name := range []string{"clientCertificate", "privateKey"} {
			if files[name] != "" {
				r.warn(at(field, name), files[name], "has no effect with mode SIMPLE, by which the server is shown no certificate", "set mode to MUTUAL, or remove it")
			}
		}
	case t.Mode == networking.ClientTLSSettings_ISTIO_MUTUAL:
		files["credentialName"] = t.CredentialName
		for _, name := range sortedKeys(files) {
			if files[name] != "" {
				r.warn(at(field, name), files[name], "has no effect with mode ISTIO_MUTUAL, which uses the workload's own certificate", "remove it, or set mode to MUTUAL")
			}
		}
		if t.InsecureSkipVerify.GetValue() {
			r.warn(at(field, "insecureSkipVerify"), true, "has no effect with mode ISTIO_MUTUAL: that the server is one of the mesh is checked", "remove it")
		}
	case t.Mode == networking.ClientTLSSettings_DISABLE:
		if t.Sni != "" || t.CredentialName != "" || strings.Join(slices.Collect(maps.Values(files)), "") != "" || len(t.SubjectAltNames) > 0 || t.InsecureSkipVerify.GetValue() {
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

// unverified rejects what says how a server is checked beside what says that it is not, of modes in which the proxy checks it by the rule. A credential may hold a client's
// certificate alone, with mode MUTUAL.
func (r *report) unverified(field string, t *networking.ClientTLSSettings, simple bool) {
	const contradicts = "has no effect while insecureSkipVerify is true"
	if t.CaCertificates != "" {
		r.reject(at(field, "caCertificates"), t.CaCertificates, contradicts, "remove one of the two")
	}
	if len(t.SubjectAltNames) > 0 {
		r.reject(at(field, "subjectAltNames"), nil, "have no effect while insecureSkipVerify is true", "remove one of the two")
	}
	if t.CaCrl != "" {
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
