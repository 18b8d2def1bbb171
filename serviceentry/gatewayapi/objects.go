package gatewayapi

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// HTTP3Annotation of a Gateway, "true" or "false", says whether its Service has the ports of HTTPS for UDP, too, so that HTTP/3 is spoken there where the mesh says so
// (sallyport.ingress.http3). Not all load balancers take both at one port.
const HTTP3Annotation = "egress.sallyport.io/http3"

// serviceName is a name that Services can have and that leaves room for nothing else.
var serviceName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

// ObjectsName is what the objects that are made of a Gateway are called, its Service among them: GATEWAY-CLASS, of a waypoint GATEWAY, as in Istio; or, where a Service
// could not be called so, a digest of it.
func ObjectsName(gateway string, class gatewayv1.ObjectName) string {
	name := gateway
	if !IsWaypoint(class) {
		name += "-" + string(class)
	}
	if serviceName.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "gateway-" + hex.EncodeToString(sum[:8])
}
