package mesh

import (
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/sallyport/sallyport/config/decode/strict"
)

// Ingress is what holds for ingress gateways.
type Ingress struct {
	// OwnNamespace leaves out Gateway objects of other namespaces than the gateway's pods'; Istio's PILOT_SCOPE_GATEWAY_TO_NAMESPACE.
	OwnNamespace bool
	// TrustedProxies is how many proxies in front of them are believed about the client's address, in X-Forwarded-For.
	TrustedProxies uint32
	// ProxyProtocol says that connections begin with a header of the PROXY protocol, by which their client is known.
	ProxyProtocol bool
	// IdleTimeout is how long a connection from outside stays that carries no request; 0 is the usual time.
	IdleTimeout time.Duration
	// KeepSilent keeps connections that have shaken hands, and by which nothing has been asked for yet, for as long as others that rest. Without it they have a quarter of a minute.
	KeepSilent bool
	// HTTP3 says that servers which end TLS speak HTTP/3, too, where a Service of the gateway's pods has their port for UDP; Istio's PILOT_ENABLE_QUIC_LISTENERS.
	HTTP3 bool
	// ClientCertificates is what becomes of X-Forwarded-Client-Cert.
	ClientCertificates ClientCertificates
}

// ClientCertificates is one of Envoy's ways with X-Forwarded-Client-Cert; the zero value, as Istio's, writes it anew.
type ClientCertificates uint8

// The ways.
const (
	WriteAnew ClientCertificates = iota
	Sanitize
	ForwardOnly
	AppendForward
	AlwaysForward
)

// maxTrustedProxies is more than anybody has in front of a gateway.
const maxTrustedProxies = 64

// applyTopology reads defaultConfig.gatewayTopology.
func (i *Ingress) applyTopology(t *meshconfig.Topology) []strict.Problem {
	said, problems := readTopology("defaultConfig.gatewayTopology", t)
	*i = i.With(said)
	return problems
}

// ingress reads sallyport.ingress.
func (b *block) ingress(i *Ingress, v any) {
	fields := b.fields("sallyport.ingress", v, "ownNamespace", "idleTimeout", "keepSilent", "http3")
	i.OwnNamespace = b.yes("sallyport.ingress.ownNamespace", fields["ownNamespace"])
	i.KeepSilent = b.yes("sallyport.ingress.keepSilent", fields["keepSilent"])
	i.HTTP3 = b.yes("sallyport.ingress.http3", fields["http3"])
	if s := b.text("sallyport.ingress.idleTimeout", fields["idleTimeout"]); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil || d < leastIdle || d > mostIdle {
			b.add("sallyport.ingress.idleTimeout", s, "is no duration from 1s to 24h", `write minutes or seconds, as in "60s"; longer than balancers in front keep connections that rest`)
			return
		}
		i.IdleTimeout = d
	}
}

// The bounds of Ingress.IdleTimeout.
const leastIdle, mostIdle = time.Second, 24 * time.Hour
