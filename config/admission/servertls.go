package admission

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/serviceentry/registry"
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
	r.cipherSuites(field, t)
	r.clientHashes(field, t)
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

// cipherSuites warns of what is no cipher suite that a gateway can be told to speak: Envoy would refuse all servers of the port for one name.
func (r *report) cipherSuites(field string, t *networking.ServerTLSSettings) {
	if len(t.CipherSuites) == 0 || t.MinProtocolVersion == networking.ServerTLSSettings_TLSV1_3 {
		return
	}
	count := map[registry.Suite]int{}
	for _, name := range t.CipherSuites {
		count[registry.ParseSuite(name)]++
	}
	before := t.MaxProtocolVersion != 0 && t.MaxProtocolVersion < networking.ServerTLSSettings_TLSV1_3
	for i, name := range t.CipherSuites {
		where := at(field, "cipherSuites", i)
		switch registry.ParseSuite(name) {
		case registry.UnknownSuite:
			message := "no proxy knows this cipher suite, so it is left out"
			if count[registry.ChosenSuite] == 0 {
				message = "no proxy knows this cipher suite, and none of the others is one up to TLS 1.2, so the server is not opened"
			}
			r.warn(where, name, message, "write a name as in ECDHE-RSA-AES128-GCM-SHA256, or remove it")
		case registry.TLS13Suite:
			switch {
			case count[registry.ChosenSuite] > 0:
				r.warn(where, name, "suites of TLS 1.3 cannot be chosen: all three are spoken", "remove it; maxProtocolVersion: TLSV1_2 leaves them out")
			case count[registry.UnknownSuite] > 0: // that is said of these
			case before:
				r.warn(where, name, "is of TLS 1.3, above maxProtocolVersion, so the server is not opened", "raise maxProtocolVersion, or name suites of TLS 1.2")
			default:
				r.warn(where, name, "suites of TLS 1.3 cannot be chosen: all three are spoken, and nothing older, of which no suite is named", "write minProtocolVersion: TLSV1_3 in place of it, or name suites of TLS 1.2, too")
			}
		}
	}
}

// clientHashes judges what says which certificates clients may show.
func (r *report) clientHashes(field string, t *networking.ServerTLSSettings) {
	if t.Mode != networking.ServerTLSSettings_MUTUAL && t.Mode != networking.ServerTLSSettings_OPTIONAL_MUTUAL {
		for _, f := range []struct {
			name string
			list []string
		}{{"subjectAltNames", t.SubjectAltNames}, {"verifyCertificateSpki", t.VerifyCertificateSpki}, {"verifyCertificateHash", t.VerifyCertificateHash}} {
			if len(f.list) > 0 {
				r.warn(at(field, f.name), nil, "has no effect: mode "+t.Mode.String()+" asks clients for no certificate", "set mode to MUTUAL, or remove it")
			}
		}
		return
	}
	for i, s := range t.VerifyCertificateSpki {
		if !registry.IsKeyHash(s) {
			r.reject(at(field, "verifyCertificateSpki", i), s, "is no SHA-256 of a public key in base64", "write its 44 characters, as openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64 gives them")
		}
	}
	for i, s := range t.VerifyCertificateHash {
		if !registry.IsCertificateHash(s) {
			r.reject(at(field, "verifyCertificateHash", i), s, "is no SHA-256 of a certificate", "write its 64 hexadecimal digits, as openssl x509 -noout -fingerprint -sha256 gives them")
		}
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
