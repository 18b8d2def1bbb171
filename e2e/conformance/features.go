package conformance

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// profiles are those that the suite runs.
var profiles = []suite.ConformanceProfileName{
	suite.GatewayHTTPConformanceProfileName,
	suite.GatewayGRPCConformanceProfileName,
	suite.GatewayTLSConformanceProfileName,
	suite.MeshHTTPConformanceProfileName,
	suite.MeshGRPCConformanceProfileName,
}

// unsupported are the extended features of the profiles that are not claimed, with the reason.
var unsupported = map[features.FeatureName]string{
	features.SupportGatewayStaticAddresses: "the load balancer chooses addresses; spec.addresses with a value is refused by name",
	features.SupportHTTPRouteRetry:         "the standard channel's CRDs, which the suite's cluster has, drop an HTTPRoute's retry",
	features.SupportMeshClusterIPMatching:  "a sidecar knows a Service by the Host that a client names, as Istio's does",
}

// claimed are the kinds' features of which all but the unsupported are claimed.
var claimed = []sets.Set[features.Feature]{features.GatewayExtendedFeatures, features.HTTPRouteExtendedFeatures, features.TLSRouteExtendedFeatures, features.BackendTLSPolicyCoreFeatures, features.BackendTLSPolicyExtendedFeatures, features.MeshExtendedFeatures}

// supported are the extended features that are claimed.
func supported() []features.FeatureName {
	var out []features.FeatureName
	for _, kind := range claimed {
		for f := range kind {
			if unsupported[f.Name] == "" {
				out = append(out, f.Name)
			}
		}
	}
	slices.Sort(out)
	return out
}
