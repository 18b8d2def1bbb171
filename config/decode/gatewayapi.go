package decode

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
)

// GatewayGroup is the API group of the Gateway API.
const GatewayGroup = gatewayv1.GroupName

// gatewayKind is one of its kinds. Its versions are one schema; the first is today's name.
type gatewayKind struct {
	versions []string
	spec     func() any // an empty one
}

var gatewayKinds = map[config.Kind]gatewayKind{
	config.KindGatewayClass:     {[]string{"v1", "v1beta1"}, func() any { return &gatewayv1.GatewayClassSpec{} }},
	config.KindKubeGateway:      {[]string{"v1", "v1beta1"}, func() any { return &gatewayv1.GatewaySpec{} }},
	config.KindListenerSet:      {[]string{"v1"}, func() any { return &gatewayv1.ListenerSetSpec{} }},
	config.KindHTTPRoute:        {[]string{"v1", "v1beta1"}, func() any { return &gatewayv1.HTTPRouteSpec{} }},
	config.KindGRPCRoute:        {[]string{"v1", "v1alpha2"}, func() any { return &gatewayv1.GRPCRouteSpec{} }},
	config.KindTLSRoute:         {[]string{"v1", "v1alpha3", "v1alpha2"}, func() any { return &gatewayv1.TLSRouteSpec{} }},
	config.KindTCPRoute:         {[]string{"v1", "v1alpha2"}, func() any { return &gatewayv1.TCPRouteSpec{} }},
	config.KindUDPRoute:         {[]string{"v1", "v1alpha2"}, func() any { return &gatewayv1.UDPRouteSpec{} }},
	config.KindReferenceGrant:   {[]string{"v1", "v1beta1"}, func() any { return &gatewayv1.ReferenceGrantSpec{} }},
	config.KindBackendTLSPolicy: {[]string{"v1", "v1alpha3"}, func() any { return &gatewayv1.BackendTLSPolicySpec{} }},
}

// GatewayVersions are those of one of the Gateway API's kinds, the one to prefer first.
func GatewayVersions(kind config.Kind) []string { return gatewayKinds[kind].versions }

// KindOf is the kind of an object by what it says of itself.
func KindOf(apiVersion, kind string) config.Kind {
	if k, of := gatewayKindOf(apiVersion, kind); of {
		return k
	}
	return config.Kind(kind)
}

// gatewayKindOf finds a kind of the Gateway API.
func gatewayKindOf(apiVersion, kind string) (config.Kind, bool) {
	group, _, _ := strings.Cut(apiVersion, "/")
	if group != GatewayGroup {
		return "", false
	}
	for _, k := range [...]config.Kind{config.Kind(kind), config.Kind(kind + "." + GatewayGroup)} {
		if _, of := gatewayKinds[k]; of && plainName(k) == kind {
			return k, true
		}
	}
	return "", false
}

// plainName is a kind as objects write it.
func plainName(k config.Kind) string { return strings.TrimSuffix(string(k), "."+GatewayGroup) }

// isGatewaySpec says whether it is the spec of one of its kinds.
func isGatewaySpec(spec any) bool {
	for _, k := range gatewayKinds {
		if reflect.TypeOf(k.spec()) == reflect.TypeOf(spec) {
			return true
		}
	}
	return false
}

// readGatewayAPI reads one of the Gateway API's objects. Unknown fields are errors, as Istio's are: what a mistyped field was to
// close would be open.
func readGatewayAPI(empty func() any) read {
	return func(o *config.Object, plain []byte) []fault {
		var top map[string]json.RawMessage
		if err := json.Unmarshal(plain, &top); err != nil {
			return broken("", err)
		}
		var faults []fault
		for _, name := range slices.Sorted(maps.Keys(top)) {
			if !slices.Contains(topFields, name) {
				faults = append(faults, fault{Problem: strict.Problem{Field: name, Message: "unknown field", Fix: "remove it; an object has apiVersion, kind, metadata and spec"}})
			}
		}
		around, whole := readAround(o, top)
		if faults = append(faults, around...); !whole {
			return faults
		}
		spec := empty()
		unknown, err := sigsjson.UnmarshalStrict(top["spec"], spec)
		if err != nil {
			return append(faults, broken("spec", err)...)
		}
		if faults = append(faults, unknownFields(unknown, "spec", reflect.TypeOf(spec).Elem(), false)...); len(faults) > 0 {
			return faults
		}
		o.Spec = spec
		return nil
	}
}
