package controlplane

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
)

// gatewayCRDs are those of the Gateway API, of the module.
func gatewayCRDs(t *testing.T) []string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "config/crd/standard/gateway.networking.k8s.io_*s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		if !strings.Contains(filepath.Base(f), "_vap_") { // a policy, and no kind
			out = append(out, f)
		}
	}
	return out
}

// TestEgressGatewaysInCluster: what a real API server holds of egress Gateways and of routes at them gets its status: what counts, and why what does not.
func TestEgressGatewaysInCluster(t *testing.T) {
	server := apiserver.StartWith(t, apiserver.Options{})
	if err := apiserver.ApplyCRDs(t.Context(), server.Config, gatewayCRDs(t)...); err != nil {
		t.Fatal(err)
	}
	c := beginInCluster(t, server.Config)
	api := gatewayclient.NewForConfigOrDie(server.Config).GatewayV1()
	all := gatewayv1.NamespacesFromAll
	gateway := func(name string, addresses ...gatewayv1.GatewaySpecAddress) *gatewayv1.Gateway {
		return &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "sallyport-egress", Addresses: addresses,
			Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType, AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}}}},
		}}
	}
	c.made(api.Gateways(system).Create(t.Context(), gateway("out"), metav1.CreateOptions{}))
	c.made(api.Gateways(system).Create(t.Context(), gateway("wrong", gatewayv1.GatewaySpecAddress{Type: new(gatewayv1.IPAddressType), Value: "192.0.2.1"}), metav1.CreateOptions{}))
	hostname := gatewayv1.BackendObjectReference{Group: new(gatewayv1.Group("networking.istio.io")), Kind: new(gatewayv1.Kind("Hostname")), Name: "partner.example.com", Port: new(gatewayv1.PortNumber(443))}
	for name, backend := range map[string]gatewayv1.BackendObjectReference{"partner": hostname, "inside": {Name: "web", Port: new(gatewayv1.PortNumber(80))}} {
		c.made(api.HTTPRoutes("shop").Create(t.Context(), &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Name: "out", Namespace: new(gatewayv1.Namespace(system))}}},
			Hostnames:       []gatewayv1.Hostname{gatewayv1.Hostname(name + ".example.com")},
			Rules:           []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: backend}}}}},
		}}, metav1.CreateOptions{}))
	}
	says := func(list []metav1.Condition, kind string, status metav1.ConditionStatus, reason string) bool {
		found := meta.FindStatusCondition(list, kind)
		return found != nil && found.Status == status && (reason == "" || found.Reason == reason)
	}
	of := func(name string) []metav1.Condition {
		g, err := api.Gateways(system).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return g.Status.Conditions
	}
	route := func(name string) (out []metav1.Condition) {
		r, err := api.HTTPRoutes("shop").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Status.Parents {
			out = append(out, p.Conditions...)
		}
		return out
	}
	c.becomes("the Gateway is accepted, and programmed", func() bool {
		return says(of("out"), "Accepted", "True", "") && says(of("out"), "Programmed", "True", "")
	})
	c.becomes("an address that is no egress gateway is said", func() bool { return says(of("wrong"), "Accepted", "False", "UnsupportedAddress") })
	c.becomes("the route counts", func() bool {
		return says(route("partner"), "Accepted", "True", "") && says(route("partner"), "ResolvedRefs", "True", "")
	})
	c.becomes("a Service is no backend there", func() bool { return says(route("inside"), "ResolvedRefs", "False", "InvalidKind") })
	if err := api.Gateways(system).Delete(t.Context(), "out", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.becomes("without its Gateway the route does not count", func() bool { return !says(route("partner"), "Accepted", "True", "") })
}
