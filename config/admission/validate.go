package admission

import (
	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/fields"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Validate judges one object by itself: everything that Istio's own admission refuses for its kind, and what could
// not be programmed, and what config/fields says of fields that are not applied.
func Validate(o config.Object) []Finding {
	r := &report{of: o}
	r.metadata()
	switch spec := o.Spec.(type) {
	case *v1alpha1.EgressPolicy:
		r.egressPolicy(spec)
	case *security.AuthorizationPolicy:
		r.authorizationPolicy(spec)
	case *networking.ServiceEntry:
		r.serviceEntry(spec)
	case *networking.Gateway:
		r.gateway(spec)
	case *networking.VirtualService:
		r.virtualService(spec)
	case *networking.DestinationRule:
		r.destinationRule(spec)
	case *networking.Sidecar:
		r.sidecar(spec)
	case *networking.WorkloadEntry:
		r.workloadEntry(spec)
	case *networking.WorkloadGroup:
		r.workloadGroup(spec)
	case *security.RequestAuthentication:
		r.requestAuthentication(spec)
	case *security.PeerAuthentication:
		r.peerAuthentication(spec)
	case *corev1.Secret:
		if err := registry.CheckSecret(spec); err != nil {
			r.reject("data", nil, err.Error(), "write values that belong together; the last good version stays in use")
		}
	case *corev1.ConfigMap:
		if err := registry.CheckTrust(spec); err != nil {
			r.reject("data", nil, err.Error(), "write certificates in PEM form; the last good version stays in use")
		}
	case *corev1.Service:
		r.service(spec)
	case *discoveryv1.EndpointSlice:
		r.endpointSlice(spec)
	case *corev1.Pod:
		r.pod(spec)
	case *corev1.Node:
		r.node(spec)
	}
	r.gatewayAPI()
	r.gatewaySchema()
	r.fields()
	return r.findings
}

// metadata holds names to what Kubernetes takes, and our annotations to what they may say.
func (r *report) metadata() {
	const fix = "use lower-case letters, digits, hyphens and dots; begin and end with a letter or digit"
	if r.of.Name == "" || len(validation.IsDNS1123Subdomain(r.of.Name)) > 0 {
		r.reject("metadata.name", r.of.Name, "is no valid name", fix)
	}
	if r.of.Namespace != "" && len(validation.IsDNS1123Label(r.of.Namespace)) > 0 {
		r.reject("metadata.namespace", r.of.Namespace, "is no valid namespace", "use lower-case letters, digits and hyphens, at most 63")
	}
	r.annotations()
	r.waypointLabels()
	r.ingressWaypoint()
}

// fields reports what the kind's table says of what the object sets: what is not applied is a warning, or an error where
// to ignore it would be less safe.
func (r *report) fields() {
	table := fields.Of(string(r.of.Kind))
	spec, ok := r.of.Spec.(proto.Message)
	if table == nil || !ok {
		return
	}
	for _, x := range table.Remarks(spec, "spec") {
		severity, field, value, message := Warning, x.Path, x.Value, "is not applied: "+x.Why
		if x.Fate == fields.Refused {
			severity = Error
		}
		if field == "" {
			field, value, message = "kind", string(r.of.Kind), x.Why
		}
		r.add(severity, field, value, message, x.Fix)
	}
}

// ClosedStandIn is what stands in for a refused object that has no last good version, where going on without it would be less
// safe: a DestinationRule that asks for TLS. The registry closes the hosts that it is about, since without the rule they
// would be spoken to otherwise, perhaps in plain text. nil for other objects.
func ClosedStandIn(o config.Object, findings []Finding) *config.Object {
	rule, ok := o.Spec.(*networking.DestinationRule)
	if !ok || !asksForTLS(rule) {
		return nil
	}
	for _, f := range findings {
		if f.Severity == Error {
			o.Refused = f.What()
			o.Hash ^= xxhash.Sum64String(o.Refused)
			return &o
		}
	}
	return nil
}

func asksForTLS(rule *networking.DestinationRule) bool {
	asks := func(t *networking.ClientTLSSettings) bool {
		return t != nil && t.Mode != networking.ClientTLSSettings_DISABLE
	}
	policies := []*networking.TrafficPolicy{rule.TrafficPolicy}
	for _, s := range rule.Subsets {
		policies = append(policies, s.GetTrafficPolicy())
	}
	for _, p := range policies {
		if asks(p.GetTls()) {
			return true
		}
		for _, port := range p.GetPortLevelSettings() {
			if asks(port.GetTls()) {
				return true
			}
		}
	}
	return false
}
