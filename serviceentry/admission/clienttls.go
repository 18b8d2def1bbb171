package admission

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"
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
	r.configMap(at(field, "credentialName"), t.CredentialName)
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
	if simple && t.CredentialName != "" {
		r.reject(at(field, "credentialName"), t.CredentialName, contradicts, "remove one of the two")
	}
	r.warn(at(field, "insecureSkipVerify"), true, "the server's certificate is not checked: anyone on the way can read and change the traffic", "remove it, and name the server's CA in credentialName or caCertificates")
}

// configMap holds credentials that are ConfigMaps to the rule's own namespace.
func (r *report) configMap(field, credential string) {
	name, is := strings.CutPrefix(credential, "configmap://")
	if !is {
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
