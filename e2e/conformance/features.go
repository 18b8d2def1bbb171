package conformance

import (
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
)

// profiles are those that the suite runs. What is claimed beside their core is gatewayapi.Features.
var profiles = []suite.ConformanceProfileName{
	suite.GatewayHTTPConformanceProfileName,
	suite.GatewayGRPCConformanceProfileName,
	suite.GatewayTLSConformanceProfileName,
	suite.GatewayTCPConformanceProfileName,
	suite.GatewayUDPConformanceProfileName,
	suite.MeshHTTPConformanceProfileName,
	suite.MeshGRPCConformanceProfileName,
}
