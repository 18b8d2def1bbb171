package admission

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"
)

// serverTLS checks that the TLS settings fit the port's protocol, and then themselves.
func (r *report) serverTLS(field string, s *networking.Server, protocol string) {
	tls := at(field, "tls")
	switch {
	case s.Tls == nil && isTLS(protocol):
		r.reject(tls, nil, "a server of protocol "+protocol+" needs TLS settings", "write tls.mode, as in {mode: PASSTHROUGH}")
	case s.Tls == nil:
	case isHTTP(protocol) && (!passes(s.Tls) || s.Tls.ServerCertificate != "" || s.Tls.PrivateKey != "" || s.Tls.CaCertificates != ""):
		r.reject(tls, nil, "a plain-text server cannot have TLS settings", "set port.protocol to HTTPS, or keep only tls.httpsRedirect")
	case !isHTTP(protocol) && !isTLS(protocol):
		r.reject(tls, nil, "a server of protocol "+protocol+" cannot have TLS settings", "set port.protocol to TLS")
	default:
		if s.Tls.HttpsRedirect && !isHTTP(protocol) {
			r.warn(at(tls, "httpsRedirect"), true, "is for plain HTTP: there is nothing to redirect", "remove it, and write it for the server of port 80")
		}
		r.serverSettings(tls, s.Tls)
	}
}

// passes says whether TLS goes through a server as it is.
func passes(t *networking.ServerTLSSettings) bool {
	return t.Mode == networking.ServerTLSSettings_PASSTHROUGH || t.Mode == networking.ServerTLSSettings_AUTO_PASSTHROUGH
}

func (r *report) serverSettings(field string, t *networking.ServerTLSSettings) {
	switch {
	case t == nil:
		return
	case t.Mode == networking.ServerTLSSettings_ISTIO_MUTUAL:
		r.ownCertificate(field, t)
		return
	}
	r.serverCredentials(field, t)
	sources := 0
	for _, set := range []bool{t.ServerCertificate != "" && t.PrivateKey != "", t.CredentialName != "", len(t.CredentialNames) > 0, len(t.TlsCertificates) > 0} {
		if set {
			sources++
		}
	}
	if sources > 1 {
		r.reject(field, nil, "only one of credentialName, credentialNames, tlsCertificates, and serverCertificate with privateKey can be set", "keep one")
	}
	if t.MinProtocolVersion != 0 && t.MaxProtocolVersion != 0 && t.MinProtocolVersion > t.MaxProtocolVersion {
		r.warn(at(field, "minProtocolVersion"), t.MinProtocolVersion, "is above maxProtocolVersion, so no version is left", "lower it, or raise the other")
	}
	switch {
	case passes(t):
		if sources > 0 {
			r.warn(field, nil, "mode "+t.Mode.String()+" uses no certificates", "remove them")
		}
	case t.CredentialName == "" && len(t.CredentialNames) == 0:
		r.certificateFiles(field, t)
	default:
		return // what else is needed is in the secret
	}
	if t.CaCrl != "" && t.CredentialName != "" {
		r.reject(at(field, "caCrl"), t.CaCrl, "cannot be set together with credentialName", "put the list into the secret")
	}
	if t.CaCrl != "" && t.Mode == networking.ServerTLSSettings_SIMPLE {
		r.reject(at(field, "caCrl"), t.CaCrl, "mode SIMPLE asks clients for no certificate", "remove it, or set mode to MUTUAL")
	}
}

// serverCredentials warns of what is no name of a Secret: those of the gateway's own namespace are meant, and are named without it.
func (r *report) serverCredentials(field string, t *networking.ServerTLSSettings) {
	named := map[string]string{"credentialName": t.CredentialName, "caCertCredentialName": t.CaCertCredentialName}
	for i, name := range t.CredentialNames {
		named[fmt.Sprintf("credentialNames[%d]", i)] = name
	}
	for _, at := range sortedKeys(named) {
		if named[at] != "" && !isObjectName(named[at]) {
			r.warn(field+"."+at, named[at], "is no Secret's name, so the server is not opened", "write the name alone of a Secret in the namespace of the gateway's pods")
		}
	}
}

// certificateFiles rejects what a mode needs and no secret holds.
func (r *report) certificateFiles(field string, t *networking.ServerTLSSettings) {
	need := func(at, name, value string) {
		if value == "" {
			r.reject(at+"."+name, nil, "mode "+t.Mode.String()+" needs it", "write it, or tls.credentialName with the name of a secret")
		}
	}
	if t.Mode != networking.ServerTLSSettings_SIMPLE && t.CaCertCredentialName == "" {
		need(field, "caCertificates", t.CaCertificates)
	}
	if len(t.TlsCertificates) == 0 {
		need(field, "serverCertificate", t.ServerCertificate)
		need(field, "privateKey", t.PrivateKey)
	}
	for i, c := range t.TlsCertificates {
		need(fmt.Sprintf("%s.tlsCertificates[%d]", field, i), "serverCertificate", c.ServerCertificate)
		need(fmt.Sprintf("%s.tlsCertificates[%d]", field, i), "privateKey", c.PrivateKey)
	}
}

// ownCertificate rejects certificates beside the mode that uses the workload's own.
func (r *report) ownCertificate(field string, t *networking.ServerTLSSettings) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"serverCertificate", t.ServerCertificate != ""}, {"privateKey", t.PrivateKey != ""}, {"caCertificates", t.CaCertificates != ""},
		{"tlsCertificates", len(t.TlsCertificates) > 0}, {"credentialName", t.CredentialName != ""}, {"credentialNames", len(t.CredentialNames) > 0},
	} {
		if f.set {
			r.reject(at(field, f.name), nil, "cannot be set with mode ISTIO_MUTUAL, which uses the workload's own certificate", "remove it, or set mode to MUTUAL")
		}
	}
}
