package gateway

import (
	"errors"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/sidecar/gateway/overlay"
)

// parameters are those of a file: a ConfigMap as people write it.
func parameters(t *testing.T, namespace, name string) *overlay.Set {
	t.Helper()
	text, err := os.ReadFile("testdata/parameters-" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var m corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		t.Fatal(err)
	}
	return said(t, namespace, name, m.Data)
}

func said(t *testing.T, namespace, name string, data map[string]string) *overlay.Set {
	t.Helper()
	s, err := overlay.Read(namespace, name, data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestBadParameters are those that do not fit their Gateway, or each other.
func TestBadParameters(t *testing.T) {
	const most = "spec: {maxReplicas: 5}"
	for name, c := range map[string]struct {
		class, own map[string]string
		want       string // "" where they are right
	}{
		"nothing":                     {nil, nil, ""},
		"counted twice":               {nil, map[string]string{"deployment": "spec: {replicas: 2}", "horizontalPodAutoscaler": most}, "ConfigMap shop/own: data.deployment: spec.replicas: 2: the horizontalPodAutoscaler says how many"},
		"counted by the class":        {map[string]string{"horizontalPodAutoscaler": most}, map[string]string{"deployment": "spec: {replicas: 2}"}, "spec.replicas: 2"},
		"counted by itself":           {map[string]string{"deployment": "spec: {replicas: 2}"}, map[string]string{"horizontalPodAutoscaler": most}, ""},
		"no most":                     {nil, map[string]string{"horizontalPodAutoscaler": "spec: {minReplicas: 2}"}, "spec.maxReplicas: null: write how many"},
		"the class's most":            {map[string]string{"horizontalPodAutoscaler": most}, map[string]string{"horizontalPodAutoscaler": "spec: {minReplicas: 2}"}, ""},
		"labels where UDP comes in":   {nil, map[string]string{"deployment": "spec: {template: {metadata: {labels: {tier: edge}}}}"}, "the Gateway has a listener for UDP"},
		"the Gateway's label":         {nil, map[string]string{"deployment": "metadata: {labels: {team: b}}"}, `metadata.labels[team]: "b": the Gateway has it as "a"`},
		"annotation where UDP comes":  {nil, map[string]string{"deployment": "spec: {template: {metadata: {annotations: {tier: edge}}}}"}, ""},
		"port that is not there":      {nil, map[string]string{"service": "spec: {ports: [{port: 81, nodePort: 30081}]}"}, "spec.ports[0].port: 81"},
		"UDP's port, as TCP":          {nil, map[string]string{"service": "spec: {ports: [{port: 53, nodePort: 30053}]}"}, "spec.ports[0].port: 53"},
		"UDP's port":                  {nil, map[string]string{"service": "spec: {ports: [{port: 53, protocol: UDP, nodePort: 30053}]}"}, ""},
		"budget without a word of it": {nil, map[string]string{"podDisruptionBudget": ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Render(example(), Router, nil, Default(), said(t, "istio-system", "class", c.class), said(t, "shop", "own", c.own))
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if asked := c.class["horizontalPodAutoscaler"]+c.own["horizontalPodAutoscaler"] != ""; asked != (o.Autoscaler != nil) || asked && o.Deployment.Spec.Replicas != nil {
					t.Errorf("autoscaler %v, replicas %v", o.Autoscaler, o.Deployment.Spec.Replicas)
				}
				return
			}
			var bad overlay.Error
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestRecreated: who has all pods end before others begin need not know what was said of rolling.
func TestRecreated(t *testing.T) {
	o, err := Render(example(), Router, nil, Default(), said(t, "shop", "own", map[string]string{"deployment": "spec: {strategy: {type: Recreate}}"}))
	if err != nil || o.Deployment.Spec.Strategy.RollingUpdate != nil || o.Deployment.Spec.Strategy.Type != "Recreate" {
		t.Errorf("%+v, %v", o.Deployment, err)
	}
}

// TestServiceTypeOfParameters: an address is asked of a load balancer only where there is one.
func TestServiceTypeOfParameters(t *testing.T) {
	g := example()
	g.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
	o, err := Render(g, Router, nil, Default(), said(t, "shop", "own", map[string]string{"service": "spec: {type: ClusterIP}"}))
	if err != nil || o.Service.Spec.Type != corev1.ServiceTypeClusterIP || o.Service.Spec.LoadBalancerIP != "" {
		t.Errorf("%+v, %v", o.Service, err)
	}
}
