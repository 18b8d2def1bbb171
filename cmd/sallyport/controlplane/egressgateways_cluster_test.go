package controlplane

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
	typed "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/typed/apis/v1"

	"github.com/sallyport/sallyport/e2e/world"
)

// routesInCluster are Gateways of the root namespace, and routes of namespace shop.
type routesInCluster struct {
	*inCluster
	api typed.GatewayV1Interface
}

// egressGateways: what the API server holds of egress Gateways, and of routes at them and for Services, gets its status: what counts, and why what
// does not.
func (c *inCluster) egressGateways(config *rest.Config) {
	r := routesInCluster{c, gatewayclient.NewForConfigOrDie(config).GatewayV1()}
	ctx := c.Context()
	ip := gatewayv1.IPAddressType
	r.gateway("out")
	r.gateway("wrong", gatewayv1.GatewaySpecAddress{Type: &ip, Value: "192.0.2.1"})
	hostname := gatewayv1.BackendObjectReference{Group: new(gatewayv1.Group("networking.istio.io")), Kind: new(gatewayv1.Kind("Hostname")), Name: "partner.example.com", Port: new(gatewayv1.PortNumber(443))}
	service := gatewayv1.BackendObjectReference{Name: "web", Port: new(gatewayv1.PortNumber(80))}
	out := gatewayv1.ParentReference{Name: "out", Namespace: new(gatewayv1.Namespace(system))}
	kept := &gatewayv1.SessionPersistence{SessionName: new("cart")}
	r.route("partner", out, hostname, nil)
	r.route("inside", out, service, nil)
	r.route("held", out, hostname, kept)
	c.made(c.client.CoreV1().Services("shop").Create(ctx, serviceOf("web"), metav1.CreateOptions{}))
	r.route("cart", gatewayv1.ParentReference{Group: new(gatewayv1.Group("")), Kind: new(gatewayv1.Kind("Service")), Name: "web"}, service, kept)

	r.says("out", r.ofGateway, "Accepted", metav1.ConditionTrue, "Accepted")
	r.says("out", r.ofGateway, "Programmed", metav1.ConditionFalse, "AddressNotUsable") // there is no gateway yet
	c.made(c.client.CoreV1().Services(system).Create(ctx, serviceOf("istio-egressgateway"), metav1.CreateOptions{}))
	r.says("out", r.ofGateway, "Programmed", metav1.ConditionTrue, "Programmed")
	r.says("wrong", r.ofGateway, "Accepted", metav1.ConditionFalse, "UnsupportedAddress")
	r.says("partner", r.ofRoute, "Accepted", metav1.ConditionTrue, "Accepted")
	r.says("partner", r.ofRoute, "ResolvedRefs", metav1.ConditionTrue, "ResolvedRefs")
	r.says("inside", r.ofRoute, "ResolvedRefs", metav1.ConditionFalse, "InvalidKind")
	r.says("held", r.ofRoute, "Accepted", metav1.ConditionFalse, "UnsupportedValue")
	r.says("cart", r.ofRoute, "Accepted", metav1.ConditionTrue, "Accepted")
	r.says("cart", r.ofRoute, "ResolvedRefs", metav1.ConditionTrue, "ResolvedRefs")
	if err := r.api.Gateways(system).Delete(ctx, "out", metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
	r.says("partner", r.ofRoute, "Accepted", "", "") // without its Gateway it has no parent that is ours
}

func serviceOf(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
}

func (r routesInCluster) gateway(name string, addresses ...gatewayv1.GatewaySpecAddress) {
	r.Helper()
	all := gatewayv1.NamespacesFromAll
	r.made(r.api.Gateways(system).Create(r.Context(), &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: gatewayv1.GatewaySpec{
		GatewayClassName: "sallyport-egress", Addresses: addresses,
		Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType, AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}}}},
	}}, metav1.CreateOptions{}))
}

func (r routesInCluster) route(name string, parent gatewayv1.ParentReference, to gatewayv1.BackendObjectReference, kept *gatewayv1.SessionPersistence) {
	r.Helper()
	o := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: gatewayv1.HTTPRouteSpec{
		CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{parent}},
		Rules:           []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: to}}}, SessionPersistence: kept}},
	}}
	if parent.Kind == nil {
		o.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(name + ".example.com")}
	}
	r.made(r.api.HTTPRoutes("shop").Create(r.Context(), o, metav1.CreateOptions{}))
}

func (r routesInCluster) ofGateway(name string) ([]metav1.Condition, error) {
	g, err := r.api.Gateways(system).Get(r.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return g.Status.Conditions, nil
}

func (r routesInCluster) ofRoute(name string) (out []metav1.Condition, err error) {
	o, err := r.api.HTTPRoutes("shop").Get(r.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for _, p := range o.Status.Parents {
		out = append(out, p.Conditions...)
	}
	return out, nil
}

// says waits until an object's condition has a status and a reason; without a status, until there is no such condition.
func (r routesInCluster) says(name string, of func(string) ([]metav1.Condition, error), kind string, status metav1.ConditionStatus, reason string) {
	r.Helper()
	if err := world.Within(r.Context(), soon, func() error {
		list, err := of(name)
		if err != nil {
			return err
		}
		got := metav1.Condition{}
		if found := meta.FindStatusCondition(list, kind); found != nil {
			got = *found
		}
		if got.Status != status || got.Reason != reason {
			return fmt.Errorf("%s: %s is %q (%q), want %q (%q): %+v", name, kind, got.Status, got.Reason, status, reason, list)
		}
		return nil
	}); err != nil {
		r.Fatal(err)
	}
}
