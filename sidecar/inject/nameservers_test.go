package inject

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestNameServers: name servers that are known not to know the control plane are warned of, and no others.
func TestNameServers(t *testing.T) {
	const local = "searches: [shop.svc.cluster.local, svc.cluster.local, cluster.local]"
	for what, c := range map[string]struct{ spec, config, annotations, want string }{
		"the cluster's":           {spec: "dnsPolicy: ClusterFirst"},
		"for the node's network":  {spec: "dnsPolicy: ClusterFirstWithHostNet"},
		"the node's":              {spec: "dnsPolicy: Default", want: `dnsPolicy: "Default": the proxy looks up the control plane (sallyport.istio-system.svc)`},
		"the node's, by address":  {spec: "dnsPolicy: Default", config: "discoveryAddress: 10.0.0.1:15012"},
		"the node's, from afar":   {spec: "dnsPolicy: Default", config: "discoveryAddress: mesh.example.com:15012"},
		"of the internet":         {spec: "dnsPolicy: None, dnsConfig: {nameservers: [1.1.1.1, 8.8.8.8], " + local + "}", want: `dnsConfig.nameservers: "1.1.1.1,8.8.8.8": the proxy looks up the control plane`},
		"one that may know":       {spec: "dnsPolicy: None, dnsConfig: {nameservers: [1.1.1.1, 10.96.0.10], " + local + "}"},
		"of the node":             {spec: "dnsPolicy: None, dnsConfig: {nameservers: [169.254.20.10], " + local + "}"},
		"no domain":               {spec: "dnsPolicy: None, dnsConfig: {nameservers: [10.96.0.10]}", want: "dnsConfig.searches: there are none"},
		"no domain, a whole name": {spec: "dnsPolicy: None, dnsConfig: {nameservers: [10.96.0.10]}", config: "discoveryAddress: sallyport.istio-system.svc.cluster.local:15012"},
		"its own":                 {spec: "dnsPolicy: None, dnsConfig: {nameservers: [127.0.0.1], " + local + "}", want: `dnsConfig.nameservers: "127.0.0.1": the proxy looks up names by a resolver of the pod's own`},
		"its own, beside others":  {spec: "dnsPolicy: None, dnsConfig: {nameservers: [127.0.0.1, 10.96.0.10], " + local + "}"},
		"its own, first":          {spec: "dnsPolicy: None, dnsConfig: {nameservers: [127.0.0.1], " + local + "}", config: "nativeSidecar: false", annotations: `proxyMetadata: {ISTIO_META_DNS_CAPTURE: "false"}`},
	} {
		pod := &corev1.Pod{}
		if err := yaml.UnmarshalStrict([]byte("spec: {containers: [{name: web}], "+c.spec+"}"), pod); err != nil {
			t.Fatal(err)
		}
		if c.annotations != "" {
			pod.Annotations = map[string]string{"proxy.istio.io/config": c.annotations}
		}
		s, err := ParseSettings([]byte(c.config))
		if err != nil {
			t.Fatal(err)
		}
		result, err := Inject(pod, meshed, s)
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Join(result.Warnings, "\n")
		if got := strings.Contains(said, "dnsPolicy") || strings.Contains(said, "nameservers"); got != (c.want != "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: want %q, got %q", what, c.want, said)
		}
	}
}
