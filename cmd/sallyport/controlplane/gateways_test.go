package controlplane

import (
	"errors"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/kube/deploy"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/sidecar/gateway"
)

// TestPlace: a Gateway is programmed once it has an address, and never where what is written cannot be.
func TestPlace(t *testing.T) {
	address := []gatewayv1.GatewayStatusAddress{{Type: new(gatewayv1.IPAddressType), Value: "192.0.2.1"}}
	for name, c := range map[string]struct {
		written metav1.ConditionStatus
		state   deploy.State
		status  metav1.ConditionStatus
		reason  string
		asked   []string
	}{
		"no address":           {metav1.ConditionTrue, deploy.State{}, metav1.ConditionFalse, "AddressNotAssigned", nil},
		"address":              {metav1.ConditionTrue, deploy.State{Addresses: address}, metav1.ConditionTrue, "as written", nil},
		"problem":              {metav1.ConditionTrue, deploy.State{Addresses: address, Problem: "taken"}, metav1.ConditionFalse, "NoResources", nil},
		"address, but invalid": {metav1.ConditionFalse, deploy.State{Addresses: address}, metav1.ConditionFalse, "as written", nil},
		"asked for":            {metav1.ConditionTrue, deploy.State{Addresses: address}, metav1.ConditionTrue, "as written", []string{"192.0.2.1"}},
		"not given":            {metav1.ConditionTrue, deploy.State{}, metav1.ConditionFalse, "AddressNotUsable", []string{"192.0.2.1"}},
		"parameters":           {metav1.ConditionTrue, deploy.State{Addresses: address, Problem: "taken", BadParameters: true}, metav1.ConditionFalse, "Invalid", nil},
		"another is given":     {metav1.ConditionTrue, deploy.State{Addresses: address}, metav1.ConditionFalse, "AddressNotUsable", []string{"192.0.2.1", "192.0.2.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			told := gatewayv1.GatewayStatus{Conditions: []metav1.Condition{
				{Type: "Accepted", Status: metav1.ConditionTrue}, {Type: "Programmed", Status: c.written, Reason: "as written"},
			}}
			place(&told, c.state, c.asked)
			accepted := told.Conditions[0]
			if p := told.Conditions[1]; p.Status != c.status || p.Reason != c.reason || (accepted.Status == metav1.ConditionTrue) == c.state.BadParameters || (accepted.Reason == "InvalidParameters") != c.state.BadParameters {
				t.Errorf("%+v", told.Conditions)
			}
			if len(told.Addresses) != len(c.state.Addresses) {
				t.Errorf("addresses %+v", told.Addresses)
			}
		})
	}
}

// TestObjects: what parameters ask for is made, and what is wrong with them is told apart from what is wrong with their Gateway.
func TestObjects(t *testing.T) {
	settings, err := gateway.ParseSettings(nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &gatewayv1.Gateway{Spec: gatewayv1.GatewaySpec{GatewayClassName: "sallyport"}}
	g.Name, g.Namespace = "web", "shop"
	for text, want := range map[string]int{"": 3, "spec: {maxReplicas: 3}": 5, "spec: {minReplicas: 3}": 0, "spec: {scaleTargetRef: {}}": 0} {
		p := deploy.Parameters{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "own"}}
		if text != "" {
			p.Data = map[string]string{"horizontalPodAutoscaler": text, "podDisruptionBudget": "spec: {minAvailable: 1}"}
		}
		got, err := objects(g, nil, settings, []deploy.Parameters{p})
		var bad deploy.BadParameters
		if len(got) != want || errors.As(err, &bad) != (want == 0) {
			t.Errorf("%s: %d objects, %v", text, len(got), err)
		}
	}
	g.Name = strings.Repeat("a", 64)
	var bad deploy.BadParameters
	if _, err := objects(g, nil, settings, nil); err == nil || errors.As(err, &bad) {
		t.Errorf("%v, want that it is the Gateway's name", err)
	}
}

// TestUnplaced: where nothing is deployed for Gateways, nobody is asked for addresses, and the status says so.
func TestUnplaced(t *testing.T) {
	for asked, want := range map[string]metav1.ConditionStatus{"": metav1.ConditionTrue, "192.0.2.1": metav1.ConditionFalse} {
		told := gatewayv1.GatewayStatus{Conditions: []metav1.Condition{{Type: "Programmed", Status: metav1.ConditionTrue}}}
		var list []string
		if asked != "" {
			list = []string{asked}
		}
		unplaced(&told, list)
		if p := told.Conditions[0]; p.Status != want || (p.Reason == "AddressNotUsable") != (asked != "") {
			t.Errorf("%q: %+v", asked, p)
		}
	}
}

// TestPodLabels: policies are looked for by the labels that pods of Gateways really have.
func TestPodLabels(t *testing.T) {
	g := &gatewayv1.Gateway{Spec: gatewayv1.GatewaySpec{GatewayClassName: "sallyport", Infrastructure: &gatewayv1.GatewayInfrastructure{
		Labels: map[gatewayv1.LabelKey]gatewayv1.LabelValue{"team": "names", gatewayv1.GatewayNameLabelKey: "another's"},
	}}}
	g.Name, g.Namespace = "names", "infra"
	o, err := render(g, nil, gateway.Settings{ServiceType: "ClusterIP"})
	if err != nil {
		t.Fatal(err)
	}
	want := o.Deployment.Spec.Template.Labels
	if got := gatewayapi.PodLabels(&config.Object{Key: config.Key{Kind: config.KindKubeGateway, Namespace: "infra", Name: "names"}, Spec: &g.Spec}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestTopologyOfGateways: pods say of the proxies in front of them what the Gateway has them say, and nothing else of a ProxyConfig; of one that is wrong nothing is deployed.
func TestTopologyOfGateways(t *testing.T) {
	for said, want := range map[string]string{
		"":                 "",
		"{concurrency: 7}": "",
		"{concurrency: 7, gatewayTopology: {numTrustedProxies: 2, proxyProtocol: {}}}": `{"gatewayTopology":{"numTrustedProxies":2,"proxyProtocol":{}}}`,
		"gatewayTopology: {numTrustedProxies: 65}":                                     "more than 64",
		"gatewayTopology: [": "is no YAML",
	} {
		own := &gatewayv1.Gateway{Spec: gatewayv1.GatewaySpec{GatewayClassName: "sallyport"}}
		own.Name, own.Namespace, own.Annotations = "in", "infra", map[string]string{mesh.ProxyConfigAnnotation: said}
		tells(t, own, want, "metadata.annotations")
		pods := own.DeepCopy()
		pods.Annotations[mesh.ProxyConfigAnnotation] = "gatewayTopology: {numTrustedProxies: 3}" // which does not count beside it
		pods.Spec.Infrastructure = &gatewayv1.GatewayInfrastructure{
			Annotations: map[gatewayv1.AnnotationKey]gatewayv1.AnnotationValue{mesh.ProxyConfigAnnotation: gatewayv1.AnnotationValue(said)},
		}
		tells(t, pods, want, "spec.infrastructure.annotations")
	}
}

// tells holds that a Gateway's pods are told this, or that it is refused with these words, which name the field.
func tells(t *testing.T, g *gatewayv1.Gateway, want, field string) {
	t.Helper()
	o, err := render(g, nil, gateway.Settings{ServiceType: "ClusterIP"})
	if err != nil {
		if want == "" || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), field) {
			t.Errorf("%v, want %q", err, want)
		}
		return
	}
	got := ""
	for _, e := range o.Deployment.Spec.Template.Spec.Containers[0].Env {
		if e.Name == mesh.ProxyConfigVariable {
			got = e.Value
		}
	}
	if got != want {
		t.Errorf("%s: %q, want %q", field, got, want)
	}
}

// TestNotAccepted: of a Gateway that is not accepted nothing is deployed, and no load balancer is asked for its address.
func TestNotAccepted(t *testing.T) {
	for address, refused := range map[string]bool{"192.0.2.1": false, "127.0.0.1": true, "names.test": true} {
		g := &gatewayv1.Gateway{Spec: gatewayv1.GatewaySpec{GatewayClassName: "sallyport", Addresses: []gatewayv1.GatewaySpecAddress{{Value: address}}}}
		g.Name, g.Namespace = "names", "infra"
		o, err := render(g, nil, gateway.Settings{ServiceType: "LoadBalancer"})
		if (err != nil) != refused || err == nil && o.Service.Spec.LoadBalancerIP != address {
			t.Errorf("%s: %v, %+v", address, err, o.Service)
		}
	}
}
