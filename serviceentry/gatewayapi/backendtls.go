package gatewayapi

import (
	"slices"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/named"
)

// BackendTLS is what a BackendTLSPolicy says of TLS to a Service.
type BackendTLS struct {
	Key      config.Key
	Revision string
	Created  time.Time
	Section  string       // the name of the Service's port; "" for all ports
	Name     string       // by which TLS asks for the backend
	SANs     []string     // of which its certificate has one, sorted: hosts, "*.suffix", URIs
	System   bool         // the system's roots vouch for it
	CAs      []config.Key // or certificates in these, which may not be there
	// Refs is wrong with what it names; Unaccepted with the whole, and nothing is sent by it.
	Refs, Unaccepted Problem
}

// BackendTLSOf reads what a policy says of a Service of its namespace, once for each of its ports that the policy names; nothing where
// it is not for the Service.
func BackendTLSOf(o *config.Object, service string) (out []*BackendTLS) {
	spec := o.Spec.(*gatewayv1.BackendTLSPolicySpec)
	for _, t := range spec.TargetRefs {
		if t.Group != "" || t.Kind != "Service" || string(t.Name) != service {
			continue
		}
		p := &BackendTLS{Key: o.Key, Revision: o.Revision, Created: o.Created, Section: string(or(t.SectionName, "")), Name: string(spec.Validation.Hostname)}
		p.read(o.Namespace, spec)
		out = append(out, p)
	}
	return out
}

func (p *BackendTLS) read(ns string, spec *gatewayv1.BackendTLSPolicySpec) {
	v := &spec.Validation
	for _, san := range v.SubjectAltNames {
		switch san.Type {
		case gatewayv1.HostnameSubjectAltNameType:
			p.SANs = append(p.SANs, string(san.Hostname))
		case gatewayv1.URISubjectAltNameType:
			p.SANs = append(p.SANs, string(san.URI))
		default:
			p.Unaccepted = Problem{string(gatewayv1.PolicyReasonInvalid), "validation.subjectAltNames.type: " + string(san.Type) + " is not known"}
		}
	}
	if len(v.SubjectAltNames) == 0 {
		p.SANs = []string{p.Name}
	}
	slices.Sort(p.SANs)
	p.SANs = slices.Compact(p.SANs)
	for _, ref := range v.CACertificateRefs {
		key, known := named.LocalCA(ns, ref)
		if !known {
			p.Refs = Problem{string(gatewayv1.BackendTLSPolicyReasonInvalidKind), "validation.caCertificateRefs: " + string(ref.Kind) + " " + string(ref.Name) + " is neither a ConfigMap nor a Secret"}
			continue
		}
		p.CAs = append(p.CAs, key)
	}
	known := or(v.WellKnownCACertificates, "")
	p.System = len(v.CACertificateRefs) == 0 && known == gatewayv1.WellKnownCACertificatesSystem
	switch {
	case p.Unaccepted.Is():
	case len(spec.Options) > 0:
		p.Unaccepted = Problem{string(gatewayv1.PolicyReasonInvalid), "options: none is known"}
	case len(p.CAs) == 0 && len(v.CACertificateRefs) > 0:
		p.Unaccepted = Problem{string(gatewayv1.BackendTLSPolicyReasonNoValidCACertificate), p.Refs.Message}
	case len(v.CACertificateRefs) > 0 && known != "":
		p.Unaccepted = Problem{string(gatewayv1.PolicyReasonInvalid), "validation.wellKnownCACertificates: it cannot be beside caCertificateRefs"}
	case len(v.CACertificateRefs) == 0 && !p.System:
		p.Unaccepted = Problem{string(gatewayv1.PolicyReasonInvalid), "validation.wellKnownCACertificates: " + string(known) + " is not known; write System, or caCertificateRefs"}
	}
}

// compare puts those first that take precedence: the oldest, then by name.
func (p *BackendTLS) compare(o *BackendTLS) int {
	if c := p.Created.Compare(o.Created); c != 0 {
		return c
	}
	return p.Key.Compare(o.Key)
}

// Secured is what policies say of a Service, in order of precedence.
type Secured []*BackendTLS

// SecuredBy gathers what policies of a Service's namespace say of it.
func SecuredBy(policies []*config.Object, service string) (out Secured) {
	for _, o := range policies {
		out = append(out, BackendTLSOf(o, service)...)
	}
	slices.SortFunc(out, (*BackendTLS).compare)
	return out
}

// At is what counts at a port, by its name: what names the port before what is for all. nil: nothing does.
func (s Secured) At(port string) *BackendTLS {
	for _, section := range [...]string{port, ""} {
		if i := slices.IndexFunc(s, func(p *BackendTLS) bool { return p.Section == section }); i >= 0 {
			return s[i]
		}
	}
	return nil
}

// Counts says whether a policy is the first for what it names of the Service.
func (s Secured) Counts(p *BackendTLS) bool {
	i := slices.IndexFunc(s, func(o *BackendTLS) bool { return o.Section == p.Section })
	return i >= 0 && s[i].Key == p.Key
}
