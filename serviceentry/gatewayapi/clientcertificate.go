package gatewayapi

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/named"
)

// ClientCertificate is the Secret whose certificate a Gateway shows to backends that take TLS, and what is wrong with naming it; false
// where it shows none.
func ClientCertificate(w World, o *config.Object) (config.Key, Problem, bool) {
	spec := o.Spec.(*gatewayv1.GatewaySpec)
	if spec.TLS == nil || spec.TLS.Backend == nil || spec.TLS.Backend.ClientCertificateRef == nil {
		return config.Key{}, Problem{}, false
	}
	ref := *spec.TLS.Backend.ClientCertificateRef
	key, known := named.Certificate(o.Namespace, ref)
	switch {
	case !known:
		return key, Problem{string(gatewayv1.GatewayReasonInvalidClientCertificateRef), "tls.backend.clientCertificateRef: " + string(or(ref.Kind, "Secret")) + " " + key.Name + " is no Secret"}, true
	case !granted(w, gatewayParty(o), partyOf(key)):
		return key, Problem{string(gatewayv1.GatewayReasonRefNotPermitted), "tls.backend.clientCertificateRef: no ReferenceGrant in namespace " + key.Namespace + " lets it name Secret " + key.Name}, true
	}
	return key, Problem{}, true
}

// gatewayParty is a Gateway, or a ListenerSet, as grants name it.
func gatewayParty(o *config.Object) party {
	if o.Kind == config.KindListenerSet {
		return party{gatewayv1.GroupName, "ListenerSet", o.Namespace, o.Name}
	}
	return party{gatewayv1.GroupName, "Gateway", o.Namespace, o.Name}
}

// partyOf is a Secret or a ConfigMap as grants name it.
func partyOf(key config.Key) party { return party{"", string(key.Kind), key.Namespace, key.Name} }
