package gatewayapi

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// ofGateways and ofMesh are the API's features of which all but the Unclaimed are claimed: those of Gateways and their routes, and those of
// routes whose parent is a Service.
var (
	ofGateways = []sets.Set[features.Feature]{
		features.GatewayCoreFeatures, features.GatewayExtendedFeatures, features.ReferenceGrantCoreFeatures,
		features.HTTPRouteCoreFeatures, features.HTTPRouteExtendedFeatures, features.GRPCRouteCoreFeatures, features.GRPCRouteExtendedFeatures,
		features.TLSRouteCoreFeatures, features.TLSRouteExtendedFeatures, features.TCPRouteExtendedFeatures, features.UDPRouteFeatures,
		features.BackendTLSPolicyCoreFeatures, features.BackendTLSPolicyExtendedFeatures,
	}
	ofMesh = []sets.Set[features.Feature]{features.MeshCoreFeatures, features.MeshExtendedFeatures}
)

// Unclaimed are the features of these that are not claimed, with the reason.
var Unclaimed = map[features.FeatureName]string{
	features.SupportMeshClusterIPMatching: "a sidecar finds a request's row by its Host, as Istio's does: a table that is asked by the address would know no hosts outside",
}

// Features are all that are claimed, in order of their names.
func Features() []features.FeatureName { return claimedOf(slices.Concat(ofGateways, ofMesh)) }

// ClassFeatures are what the GatewayClass of a name says of itself: a waypoint's, and an egress gateway's, has none of Gateways for what comes in.
func ClassFeatures(class string) (out []gatewayv1.SupportedFeature) {
	if name := gatewayv1.ObjectName(class); IsWaypoint(name) || IsEgress(name) {
		return nil
	}
	for _, f := range claimedOf(ofGateways) {
		out = append(out, gatewayv1.SupportedFeature{Name: gatewayv1.FeatureName(f)})
	}
	return out
}

func claimedOf(kinds []sets.Set[features.Feature]) []features.FeatureName {
	var out []features.FeatureName
	for _, kind := range kinds {
		for f := range kind {
			if Unclaimed[f.Name] == "" {
				out = append(out, f.Name)
			}
		}
	}
	slices.SortFunc(out, func(a, b features.FeatureName) int { return strings.Compare(string(a), string(b)) })
	return slices.Compact(out)
}
