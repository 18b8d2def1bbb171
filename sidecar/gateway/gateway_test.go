package gateway

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// example is a Gateway with everything that its objects depend on.
func example() *gatewayv1.Gateway {
	return &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "0b9f0a1c"},
		Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "sallyport",
			Addresses:        []gatewayv1.GatewaySpecAddress{{Type: new(gatewayv1.IPAddressType)}, {Type: new(gatewayv1.IPAddressType), Value: "203.0.113.7"}},
			Infrastructure: &gatewayv1.GatewayInfrastructure{
				Labels: map[gatewayv1.LabelKey]gatewayv1.LabelValue{
					"team": "a", gatewayv1.GatewayNameLabelKey: "other", "sidecar.istio.io/inject": "true",
				},
				Annotations: map[gatewayv1.AnnotationKey]gatewayv1.AnnotationValue{"example.com/balancer": "internal"},
			},
			Listeners: []gatewayv1.Listener{
				{Name: "https", Port: 443, Protocol: gatewayv1.HTTPSProtocolType},
				{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
				{Name: "again", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
				{Name: "dns", Port: 53, Protocol: gatewayv1.UDPProtocolType},
				{Name: "ours", Port: 15021, Protocol: gatewayv1.HTTPProtocolType},
			},
		},
	}
}

// waypoint is one, which asks for more than it gets.
func waypoint() *gatewayv1.Gateway {
	return &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: "waypoint", Namespace: "shop", UID: "0b9f0a1c"},
		Spec: gatewayv1.GatewaySpec{GatewayClassName: "istio-waypoint", Listeners: []gatewayv1.Listener{
			{Name: "mesh", Port: 15008, Protocol: "HBONE"}, {Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
		}},
	}
}

// TestRender compares with the objects of golden files.
func TestRender(t *testing.T) {
	for name, render := range map[string]func() (Objects, error){
		"web": func() (Objects, error) {
			return Render(example(), Router, []Port{PortOf(8443, gatewayv1.HTTPSProtocolType)}, Default())
		},
		"http3": func() (Objects, error) {
			g := example()
			g.Annotations = map[string]string{gatewayapi.HTTP3Annotation: "true"}
			return Render(g, Router, []Port{PortOf(8443, gatewayv1.HTTPSProtocolType), PortOf(9443, gatewayv1.TLSProtocolType)}, Default())
		},
		"waypoint": func() (Objects, error) { return Render(waypoint(), Waypoint, nil, Default()) },
		"parameters": func() (Objects, error) {
			g := example()
			g.Spec.Listeners = g.Spec.Listeners[:2] // none is for UDP
			return Render(g, Router, nil, Default(), parameters(t, "istio-system", "class"), parameters(t, "shop", "own"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := render()
			if err != nil {
				t.Fatal(err)
			}
			compare(t, "testdata/"+name+".yaml", o)
		})
	}
}

func compare(t *testing.T, golden string, o Objects) {
	t.Helper()
	var got strings.Builder
	all := []any{o.ServiceAccount, o.Deployment, o.Service}
	if o.Autoscaler != nil {
		all = append(all, o.Autoscaler)
	}
	if o.Budget != nil {
		all = append(all, o.Budget)
	}
	for _, object := range all {
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString("---\n" + string(text))
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("run with -update if this is right: %s", diff)
	}
}

// TestRefused are Gateways that cannot be deployed as they say.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*gatewayv1.Gateway)
		want   string
	}{
		"HTTP/3":       {func(g *gatewayv1.Gateway) { g.Annotations = map[string]string{gatewayapi.HTTP3Annotation: "yes"} }, `"yes": write "true" or "false"`},
		"service type": {func(g *gatewayv1.Gateway) { g.Annotations = map[string]string{ServiceTypeAnnotation: "ExternalName"} }, `"ExternalName": write LoadBalancer`},
		"long name":    {func(g *gatewayv1.Gateway) { g.Name = strings.Repeat("a", 64) }, "at most 63"},
	} {
		t.Run(name, func(t *testing.T) {
			g := example()
			c.change(g)
			if _, err := Render(g, Router, nil, Default()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestSettings: what is wrong is named by its field.
func TestSettings(t *testing.T) {
	for text, want := range map[string]string{
		"image: ''":                   "image",
		"serviceType: ExternalName":   "serviceType",
		"discoveryAddress: sallyport": "discoveryAddress",
		"maxConnections: 0":           "maxConnections",
		"drain: {min: -1s}":           "drain.min",
		"replicas: -1":                "replicas",
		"colour: red":                 "colour",
	} {
		if _, err := ParseSettings([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	s, err := ParseSettings([]byte("replicas: 3\ndrain: {max: 10s}\n"))
	if err != nil || *s.Replicas != 3 || s.Drain.Max.Seconds() != 10 || s.Drain.Min.Seconds() != 5 {
		t.Errorf("%+v, %v", s, err)
	}
}
