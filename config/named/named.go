// Package named says which Secrets and ConfigMaps objects of the Gateway API name.
//
// In: objects as config/decode gives them. Out: keys. Whether an object may name another is asked where that is used: here is only
// who is to be read, and of whom something else is to be told when it changes.
package named

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
)

// TrustKey is where a ConfigMap or Secret says whom to trust: certificates in PEM form.
const TrustKey = "ca.crt"

// Objects gives what an object names, in the order in which it does, at times twice.
func Objects(o *config.Object) (out []config.Key) {
	add := func(key config.Key, known bool) {
		if known {
			out = append(out, key)
		}
	}
	listener := func(t *gatewayv1.ListenerTLSConfig) {
		if t == nil {
			return
		}
		for _, ref := range t.CertificateRefs {
			add(Certificate(o.Namespace, ref))
		}
	}
	switch spec := o.Spec.(type) {
	case *gatewayv1.GatewaySpec:
		for i := range spec.Listeners {
			listener(spec.Listeners[i].TLS)
		}
		for _, ref := range frontend(spec.TLS) {
			add(CA(o.Namespace, ref))
		}
		if spec.TLS != nil && spec.TLS.Backend != nil && spec.TLS.Backend.ClientCertificateRef != nil {
			add(Certificate(o.Namespace, *spec.TLS.Backend.ClientCertificateRef))
		}
	case *gatewayv1.ListenerSetSpec:
		for i := range spec.Listeners {
			listener(spec.Listeners[i].TLS)
		}
	case *gatewayv1.BackendTLSPolicySpec:
		for _, ref := range spec.Validation.CACertificateRefs {
			add(LocalCA(o.Namespace, ref))
		}
	}
	return out
}

// frontend are whom a Gateway trusts for clients, at any port.
func frontend(t *gatewayv1.GatewayTLSConfig) (out []gatewayv1.ObjectReference) {
	if t == nil || t.Frontend == nil {
		return nil
	}
	all := []gatewayv1.TLSConfig{t.Frontend.Default}
	for _, p := range t.Frontend.PerPort {
		all = append(all, p.TLS)
	}
	for _, c := range all {
		if c.Validation != nil {
			out = append(out, c.Validation.CACertificateRefs...)
		}
	}
	return out
}

// Certificate is the Secret of a certificate with its key; false where something else is named.
func Certificate(own string, ref gatewayv1.SecretObjectReference) (config.Key, bool) {
	key := config.Key{Kind: config.KindSecret, Namespace: own, Name: string(ref.Name)}
	if ref.Namespace != nil {
		key.Namespace = string(*ref.Namespace)
	}
	return key, (ref.Group == nil || *ref.Group == "") && (ref.Kind == nil || *ref.Kind == "Secret")
}

// CA is the ConfigMap, or Secret, that says whom to trust; false where something else is named.
func CA(own string, ref gatewayv1.ObjectReference) (config.Key, bool) {
	key, known := LocalCA(own, gatewayv1.LocalObjectReference{Group: ref.Group, Kind: ref.Kind, Name: ref.Name})
	if ref.Namespace != nil {
		key.Namespace = string(*ref.Namespace)
	}
	return key, known
}

// LocalCA is one of the object's own namespace.
func LocalCA(own string, ref gatewayv1.LocalObjectReference) (config.Key, bool) {
	key := config.Key{Kind: config.Kind(ref.Kind), Namespace: own, Name: string(ref.Name)}
	return key, ref.Group == "" && (key.Kind == config.KindConfigMap || key.Kind == config.KindSecret)
}
