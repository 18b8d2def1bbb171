package gatewayapi

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
)

// Parameters says what is wrong with how a Gateway names its parameters, whatever these say. Nothing that it opens is closed by it: they are about what is
// deployed for it, and that stays as it was.
func Parameters(spec *gatewayv1.GatewaySpec) Problem {
	if spec.Infrastructure == nil || spec.Infrastructure.ParametersRef == nil {
		return Problem{}
	}
	ref := spec.Infrastructure.ParametersRef
	switch {
	case IsEgress(spec.GatewayClassName):
		return invalidParameters("infrastructure.parametersRef: nothing is deployed for an egress Gateway, which stands for a Service that is there: remove it")
	case !isConfigMap(ref.Group, ref.Kind):
		return invalidParameters("infrastructure.parametersRef: parameters are in a ConfigMap: write group: \"\", kind: ConfigMap")
	}
	return Problem{}
}

// ClassParameters says so of a GatewayClass.
func ClassParameters(spec *gatewayv1.GatewayClassSpec) Problem {
	switch ref := spec.ParametersRef; {
	case ref == nil:
	case !isConfigMap(ref.Group, ref.Kind):
		return invalidParameters("parametersRef: parameters are in a ConfigMap: write group: \"\", kind: ConfigMap")
	case ref.Namespace == nil:
		return invalidParameters("parametersRef.namespace: a class's parameters are in the control plane's namespace: write it")
	}
	return Problem{}
}

func isConfigMap(group gatewayv1.Group, kind gatewayv1.Kind) bool {
	return group == "" && config.Kind(kind) == config.KindConfigMap
}

func invalidParameters(why string) Problem {
	return Problem{string(gatewayv1.GatewayReasonInvalidParameters), why}
}
