package registry

import (
	"fmt"
	"reflect"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/named"
)

func (t *TLSSettings) equal(o *TLSSettings) bool { return reflect.DeepEqual(t, o) }

// tlsProblem says why a connector cannot speak TLS as a rule asks for, and what to do; "" when it can.
func (s *Snapshot) tlsProblem(svc *Service, t *TLSSettings, rule *DestinationRule, p Connector) (why, fix string) {
	if t.By != nil {
		return s.backendTLSProblem(t, p)
	}
	switch t.Mode {
	case TLSDisable:
		return "", ""
	case TLSIstioMutual:
		if t.Crowded != "" {
			return "trafficPolicy.tls." + t.Crowded, FewerNames
		}
		if svc.External {
			return "trafficPolicy.tls.mode: ISTIO_MUTUAL would show a certificate of the mesh to a host outside of it",
				"write SIMPLE, or MUTUAL with the credentialName of a secret"
		}
		return "", ""
	}
	if t.Crowded != "" {
		return "trafficPolicy.tls." + t.Crowded, FewerNames
	}
	if t.InsecureSkipVerify && len(t.SANs) > 0 {
		return "trafficPolicy.tls.subjectAltNames: cannot be checked while insecureSkipVerify is true", "remove one of the two"
	}
	if t.InsecureSkipVerify && t.CRL != "" {
		return "trafficPolicy.tls.caCrl: has no effect while insecureSkipVerify is true", "remove one of the two"
	}
	if why, fix := s.credentialProblem(svc, t, p); why != "" {
		return "trafficPolicy.tls.credentialName: " + why, fix
	}
	if file := s.strangeFile(t, rule, p); file != "" {
		return fmt.Sprintf("trafficPolicy.tls: %s names the file %q, and rules may not name it at this proxy", fieldOf(t, file), file), s.fixFile(rule, p)
	}
	return "", ""
}

// backendTLSProblem says why a gateway cannot keep a BackendTLSPolicy, and what to do; "" when it can.
func (s *Snapshot) backendTLSProblem(t *TLSSettings, p Connector) (why, fix string) {
	if t.Refused != "" {
		return t.Refused, "see its status; until it is right, nothing is sent"
	}
	if t.Trust.Bundle != "" && !s.unread {
		if c, problem := s.Credential(t.Trust); c == nil {
			return "validation.caCertificateRefs: " + problem, "write it with " + named.TrustKey + "; in a cluster, the chart's value credentials.namespaces must hold its namespace"
		}
	}
	if t.CredentialName == "" {
		return "", ""
	}
	if p.Secrets == NoSecrets {
		return "the Gateway's tls.backend: keys are given out over TLS only, and this proxy came without", "connect it to the control plane's secure port"
	}
	if s.unread {
		return "", ""
	}
	c, problem := s.Credential(CredentialRef{Namespace: t.Namespace, Name: t.CredentialName})
	if c != nil && len(c.Key) == 0 {
		problem = fmt.Sprintf("Secret %s/%s holds no certificate with a key", t.Namespace, t.CredentialName)
	}
	if problem != "" {
		return "the Gateway's tls.backend.clientCertificateRef: " + problem, "write tls.crt and tls.key"
	}
	return "", ""
}

// credentialProblem says why a connector cannot use the Secret that a rule names, and what to do. Its key is the rule's
// namespace's: for its own pods, for its own gateways, and for those that operators run for all.
func (s *Snapshot) credentialProblem(svc *Service, t *TLSSettings, p Connector) (why, fix string) {
	if t.CredentialName == "" || p.Secrets == SecretsUnseen {
		return "", ""
	}
	if p.Secrets == NoSecrets {
		return "keys are given out over TLS only, and this proxy came without", "connect it to the control plane's secure port"
	}
	shared := p.Kind == AtGateway && (p.Namespace == s.Mesh.RootNamespace || p.Namespace == s.Mesh.DefaultGateway.Namespace)
	if t.Mode == TLSMutual && p.Namespace != t.Namespace && !shared {
		return fmt.Sprintf("the key is namespace %s's, and this proxy is not", t.Namespace),
			fmt.Sprintf("let the host leave by the mesh's egress gateway, or write a rule with a Secret of its own into namespace %s", or(p.Namespace, "the workload's"))
	}
	if s.unread {
		return "", ""
	}
	const keys = "tls.crt and tls.key for a client's certificate, ca.crt for whom to trust"
	c, problem := s.Credential(CredentialRef{Namespace: t.Namespace, Name: t.CredentialName})
	switch {
	case c == nil:
		return problem, fmt.Sprintf("write it with %s; in a cluster, the chart's value credentials.namespaces must hold %s; Secrets of other namespaces are for rules there", keys, t.Namespace)
	case t.Mode == TLSMutual && len(c.Key) == 0:
		return fmt.Sprintf("Secret %s/%s holds no certificate with a key, which mode MUTUAL shows", t.Namespace, t.CredentialName), "add tls.crt and tls.key, or set mode to SIMPLE"
	case t.Mode == TLSSimple && len(c.Roots) == 0 && !t.InsecureSkipVerify:
		return fmt.Sprintf("Secret %s/%s holds no ca.crt, which mode SIMPLE is to trust", t.Namespace, t.CredentialName), "add ca.crt, or remove credentialName: then the system's roots count"
	}
	return "", ""
}

// given is what of a Secret a rule needs. A client's certificate without roots of its own is for servers that the system's
// roots vouch for.
func (s *Snapshot) given(t *TLSSettings) ServedCredential {
	if t.By != nil {
		g := ServedCredential{Ref: CredentialRef{Namespace: t.Namespace, Name: t.CredentialName}, Pair: t.Mode == TLSMutual}
		if t.Trust.Bundle != "" {
			g.Roots, g.Trust = true, t.Trust
		}
		return g
	}
	g := ServedCredential{Ref: CredentialRef{Namespace: t.Namespace, Name: t.CredentialName}}
	if c, _ := s.Credential(g.Ref); c != nil {
		g.Pair = t.Mode == TLSMutual
		g.Roots = len(c.Roots) > 0 && !t.InsecureSkipVerify
	}
	return g
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// files are those that the settings name by path.
func (t *TLSSettings) files() map[string]string {
	out := map[string]string{}
	for field, path := range map[string]string{"clientCertificate": t.ClientCertificate, "privateKey": t.PrivateKey, "caCertificates": t.CACertificates, "caCrl": t.CRL} {
		client := field == "clientCertificate" || field == "privateKey"
		if path != "" && (field != "caCertificates" || path != systemRoots) && (!client || t.Mode == TLSMutual) {
			out[field] = path
		}
	}
	return out
}

// systemRoots stands, in caCertificates, for the roots that the proxy's host trusts.
const systemRoots = "system"

func fieldOf(t *TLSSettings, file string) string {
	for _, field := range [...]string{"caCertificates", "caCrl", "clientCertificate", "privateKey"} {
		if t.files()[field] == file {
			return field
		}
	}
	return ""
}

// strangeFile gives the first file that a rule names and may not; "" without one.
func (s *Snapshot) strangeFile(t *TLSSettings, rule *DestinationRule, p Connector) string {
	files := t.files()
	for _, field := range [...]string{"caCertificates", "caCrl", "clientCertificate", "privateKey"} {
		if path := files[field]; path != "" && !s.mayName(path, rule.Key.Namespace, p) {
			return path
		}
	}
	return ""
}

// mayName says whether rules of a namespace may name a file at a connector: see mesh.CertificateFolders.
func (s *Snapshot) mayName(file, namespace string, p Connector) bool {
	root := namespace == s.Mesh.RootNamespace
	folders := s.Mesh.CertificateFolders
	if p.Kind == AtSidecar {
		return mesh.Below(folders.Sidecar, file) && (root || namespace == p.Namespace && !p.Node)
	}
	if folders.Gateway == "" || root {
		return mesh.Below(folders.Gateway, file)
	}
	return mesh.Below(folders.Gateway+"/"+namespace, file)
}

func (s *Snapshot) fixFile(rule *DestinationRule, p Connector) string {
	folders, setting, folder := s.Mesh.CertificateFolders, "sallyport.certificateFolders.gateway", ""
	if folder = folders.Gateway; p.Kind == AtSidecar {
		setting, folder = "sallyport.certificateFolders.sidecar", folders.Sidecar
	}
	const credential = "write the credentialName of a secret in the rule's namespace"
	switch {
	case p.Node:
		return "leave it out: the proxy of a node, which pods of other namespaces share, reads no files for one; or give the pods sidecars"
	case folder == "":
		return credential + "; files are for none, since the mesh settings name no folder in " + setting
	case p.Kind == AtSidecar:
		return fmt.Sprintf("%s, or, in the pods' own namespace, name files below %s (%s)", credential, folder, setting)
	default:
		return fmt.Sprintf("%s, or name files below %s/%s (%s)", credential, folder, rule.Key.Namespace, setting)
	}
}
