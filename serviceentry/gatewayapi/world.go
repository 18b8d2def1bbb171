package gatewayapi

import (
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
)

// Controller is who makes Gateways work, as GatewayClasses name it.
const Controller gatewayv1.GatewayController = "egress.sallyport.io/gateway-controller"

// DefaultClass is the class that is ours where no GatewayClass object of that name says whose it is.
const DefaultClass = "sallyport"

// GatewayLabel is on the pods of a Gateway, with its name.
const GatewayLabel = gatewayv1.GatewayNameLabelKey

// classLabel is on them, too, with the name of its class.
const classLabel = "gateway.networking.k8s.io/gateway-class-name"

// PodLabels are those that the pods of a Gateway are deployed with (sidecar/gateway).
func PodLabels(o *config.Object) map[string]string {
	spec := o.Spec.(*gatewayv1.GatewaySpec)
	out := map[string]string{}
	if spec.Infrastructure != nil {
		for k, v := range spec.Infrastructure.Labels {
			out[string(k)] = string(v)
		}
	}
	out[GatewayLabel], out[classLabel] = o.Name, string(spec.GatewayClassName)
	out["app.kubernetes.io/managed-by"], out["sidecar.istio.io/inject"] = "sallyport", "false"
	return out
}

// World is where objects are looked up that others name.
type World interface {
	// Object finds one of the Gateway API's; nil without one.
	Object(config.Key) *config.Object
	// Sets are the ListenerSets whose parent is a Gateway, in order of precedence: the oldest first.
	Sets(gateway config.Key) []*config.Object
	NamespaceLabels(ns string) map[string]string
	// Grants are the ReferenceGrants of a namespace.
	Grants(ns string) []*gatewayv1.ReferenceGrantSpec
	// Ports are those of a Service; false without one.
	Ports(types.NamespacedName) ([]Port, bool)
	// Opened is what the function makes of a Gateway, or made of it before in the same world.
	Opened(gateway config.Key, read func() *Opened) *Opened
	// ByClientIP says of a Service that it keeps clients with their pods by their addresses.
	ByClientIP(types.NamespacedName) bool
}

// Port is a Service's, with what is spoken there.
type Port struct {
	Number uint32
	Reads  bool // requests
	TLS    bool // of apps
	UDP    bool
}

// speaks says whether routes of a kind are about what a port speaks.
func (p Port) speaks(kind gatewayv1.Kind) bool {
	switch kind {
	case "HTTPRoute", "GRPCRoute":
		return p.Reads
	case "TLSRoute":
		return p.TLS
	case "TCPRoute":
		return !p.Reads && !p.TLS && !p.UDP
	default:
		return false
	}
}

// Problem is why something does not count. The zero value is none.
type Problem struct{ Reason, Message string }

// Is says whether there is one.
func (p Problem) Is() bool { return p.Reason != "" }

// IsOurs says whether Gateways of a class are ours.
func IsOurs(w World, class gatewayv1.ObjectName) bool {
	o := w.Object(config.Key{Kind: config.KindGatewayClass, Name: string(class)})
	if o == nil {
		return class == DefaultClass || IsWaypoint(class) || IsEgress(class)
	}
	return o.Spec.(*gatewayv1.GatewayClassSpec).ControllerName == Controller
}

// gateway finds a Gateway that is ours.
func gateway(w World, ns, name string) *config.Object {
	o := w.Object(config.Key{Kind: config.KindKubeGateway, Namespace: ns, Name: name})
	if o == nil || !IsOurs(w, o.Spec.(*gatewayv1.GatewaySpec).GatewayClassName) {
		return nil
	}
	return o
}

// party is an object as grants name it.
type party struct{ group, kind, namespace, name string }

// granted says whether one object may name another: it is of its own namespace, or that one's ReferenceGrants say so.
func granted(w World, from, to party) bool {
	if from.namespace == to.namespace {
		return true
	}
	for _, g := range w.Grants(to.namespace) {
		asks, gives := false, false
		for _, f := range g.From {
			asks = asks || string(f.Group) == from.group && string(f.Kind) == from.kind && string(f.Namespace) == from.namespace
		}
		for _, t := range g.To {
			gives = gives || string(t.Group) == to.group && string(t.Kind) == to.kind && (t.Name == nil || *t.Name == "" || string(*t.Name) == to.name)
		}
		if asks && gives {
			return true
		}
	}
	return false
}

// or gives what a pointer leads to, or what stands for none.
func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
