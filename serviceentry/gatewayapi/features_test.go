package gatewayapi_test

import (
	"slices"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/features"

	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// mostOfClass is how many a GatewayClass's status has at most, by the API's schema.
const mostOfClass = 64

// TestFeatures: each of the API's features is claimed, or there is a reason; what a class says of itself fits, in order, and has nothing of the mesh.
func TestFeatures(t *testing.T) {
	claimed := gatewayapi.Features()
	for f := range features.AllFeatures {
		if why := gatewayapi.Unclaimed[f.Name]; slices.Contains(claimed, f.Name) == (why != "") {
			t.Errorf("%s: claimed %v, and the reason against it is %q", f.Name, why == "", why)
		}
	}
	var names []gatewayv1.FeatureName
	for _, f := range gatewayapi.ClassFeatures(gatewayapi.DefaultClass) {
		names = append(names, f.Name)
	}
	if len(names) == 0 || len(names) > mostOfClass || !slices.IsSorted(names) || slices.Contains(names, gatewayv1.FeatureName(features.SupportMesh)) {
		t.Errorf("%d: %v", len(names), names)
	}
	if of := gatewayapi.ClassFeatures("istio-waypoint"); len(of) > 0 {
		t.Errorf("a waypoint's class claims %v", of)
	}
}

// TestAddresses: what a Gateway may ask a load balancer for.
func TestAddresses(t *testing.T) {
	for value, want := range map[string]bool{"": true, "203.0.113.7": true, "2001:db8::7": true, "127.0.0.1": false, "169.254.169.254": false, "0.0.0.0": false, "fe80::1%eth0": false, "a.test": false} {
		spec := &gatewayv1.GatewaySpec{GatewayClassName: gatewayapi.DefaultClass, Addresses: []gatewayv1.GatewaySpecAddress{{Value: value}}}
		if p := gatewayapi.Unacceptable(spec); p.Is() == want || p.Is() && p.Reason != string(gatewayv1.GatewayReasonUnsupportedAddress) {
			t.Errorf("%s: %v", value, p)
		}
		spec.Addresses[0].Type = new(gatewayv1.HostnameAddressType)
		if p := gatewayapi.Unacceptable(spec); !p.Is() {
			t.Errorf("a Hostname %s is acceptable", value)
		}
	}
}
