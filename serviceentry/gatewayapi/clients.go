package gatewayapi

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/named"
)

// Clients is what a listener that ends TLS asks of its clients.
type Clients struct {
	CAs []config.Key // who vouches for them: ConfigMaps and Secrets, which may not be there
	// Unverified says that a client comes in whatever it shows, or nothing: what is behind the gateway judges it.
	Unverified bool
}

// validation is what a Gateway asks of clients at a port; nil for nothing. What is said of a port stands in for the default as a whole.
func validation(spec *gatewayv1.GatewaySpec, port uint32) *gatewayv1.FrontendTLSValidation {
	if spec.TLS == nil || spec.TLS.Frontend == nil {
		return nil
	}
	f := spec.TLS.Frontend
	for _, p := range f.PerPort {
		if uint32(p.Port) == port {
			return p.TLS.Validation
		}
	}
	return f.Default.Validation
}

// asks reads what the Gateway g asks of the listener's clients.
func (l *Listener) asks(w World, g *config.Object, v *gatewayv1.FrontendTLSValidation) {
	if v == nil {
		return
	}
	l.Clients = &Clients{Unverified: v.Mode == gatewayv1.AllowInsecureFallback}
	for _, ref := range v.CACertificateRefs {
		key, known := named.CA(g.Namespace, ref)
		switch {
		case !known:
			l.Refs = Problem{string(gatewayv1.ListenerReasonInvalidCACertificateKind), "spec.tls.frontend: " + string(ref.Kind) + " " + key.Name + " is neither a ConfigMap nor a Secret"}
		case !granted(w, gatewayParty(g), partyOf(key)):
			l.Refs = Problem{string(gatewayv1.ListenerReasonRefNotPermitted), "spec.tls.frontend: no ReferenceGrant in namespace " + key.Namespace + " lets it name " + string(key.Kind) + " " + key.Name}
		default:
			l.Clients.CAs = append(l.Clients.CAs, key)
		}
	}
	if len(l.Clients.CAs) == 0 {
		l.Unaccepted = Problem{string(gatewayv1.ListenerReasonNoValidCACertificate), l.Refs.Message}
	}
}

// Unverified says whether a Gateway lets clients in at some port whatever they show.
func Unverified(spec *gatewayv1.GatewaySpec) bool {
	if spec.TLS == nil || spec.TLS.Frontend == nil {
		return false
	}
	all := []gatewayv1.TLSConfig{spec.TLS.Frontend.Default}
	for _, p := range spec.TLS.Frontend.PerPort {
		all = append(all, p.TLS)
	}
	for _, c := range all {
		if c.Validation != nil && c.Validation.Mode == gatewayv1.AllowInsecureFallback {
			return true
		}
	}
	return false
}
