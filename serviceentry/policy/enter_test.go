package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestEnter: what explain says of what comes to ingress gateways.
func TestEnter(t *testing.T) {
	text, err := os.ReadFile("testdata/entering.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := read(t, true, string(text))
	for _, c := range []struct {
		what     string
		q        policy.Question
		want     policy.Explanation // as far as it is set
		by       string             // "KIND/NAMESPACE/NAME RULE"
		reason   string             // is in it
		podsSays string             // verdict of the pods
	}{
		{what: "plain", q: policy.Question{URL: "http://plain.example.com/"}, want: policy.Explanation{Verdict: "allow", Cluster: "outbound|80||web.shop.svc.cluster.local", Gateway: "istio-ingress/in"}, by: "VirtualService/shop/web http[2]", podsSays: "allow"},
		{what: "by the Service's name", q: policy.Question{Gateway: "istio-ingress/in", URL: "http://plain.example.com/"}, want: policy.Explanation{Verdict: "allow"}, by: "VirtualService/shop/web http[2]"},
		{what: "by labels", q: policy.Question{Gateway: "istio-ingress/any?istio=in", URL: "http://plain.example.com/"}, want: policy.Explanation{Verdict: "allow"}, by: "VirtualService/shop/web http[2]"},
		{what: "moved", q: policy.Question{URL: "http://plain.example.com/moved"}, want: policy.Explanation{Verdict: "deny", Status: 302}, by: "VirtualService/shop/web http[0]"},
		{what: "moved by another way to say so", q: policy.Question{URL: "http://plain.example.com/x/../%6Doved"}, want: policy.Explanation{Verdict: "deny", Status: 302}, by: "VirtualService/shop/web http[0]"},
		{what: "to be asked for by TLS", q: policy.Question{URL: "http://shop.example.com/x?y=1"}, want: policy.Explanation{Verdict: "deny", Status: 301, Location: "https://shop.example.com/x?y=1"}, by: "Gateway/shop/public tls.httpsRedirect"},
		{what: "nobody's", q: policy.Question{URL: "http://other.example.com/"}, want: policy.Explanation{Verdict: "deny", Status: 404}, by: "Gateway/shop/public"},
		{what: "outside", q: policy.Question{URL: "http://plain.example.com/outside"}, want: policy.Explanation{Verdict: "deny", Status: 503}, by: "VirtualService/shop/web", reason: "ingress gateways lead inside"},
		{what: "a port that nobody opens", q: policy.Question{URL: "http://plain.example.com:81/"}, want: policy.Explanation{Verdict: "deny"}, by: "Gateway/shop/public", reason: "no Gateway opens port 81"},
		{what: "TLS ends", q: policy.Question{URL: "https://shop.example.com/"}, want: policy.Explanation{Verdict: "deny", TLS: "SIMPLE", Status: 0}, by: "Gateway/shop/public spec.servers[1]", reason: "there is no Secret istio-ingress/shop"},
		{what: "bytes to a port of requests", q: policy.Question{URL: "tcp://plain.example.com:80"}, want: policy.Explanation{Verdict: "deny"}, by: "Gateway/shop/public spec.servers[0]", reason: "takes plain HTTP"},
		{what: "TLS passes", q: policy.Question{URL: "https://passed.example.com/"}, want: policy.Explanation{Verdict: "allow", TLS: "PASSTHROUGH", Cluster: "outbound|443||web.shop.svc.cluster.local"}, by: "VirtualService/shop/bytes tls[0]"},
		{what: "TLS for nobody", q: policy.Question{URL: "https://other.example.com/"}, want: policy.Explanation{Verdict: "deny"}, by: "Gateway/shop/public", reason: "no server of port 443 has the name"},
		{what: "denied", q: policy.Question{Address: "203.0.113.9", URL: "http://plain.example.com/"}, want: policy.Explanation{Verdict: "deny", Status: 403}, by: "AuthorizationPolicy/istio-ingress/shut rules[0]"},
		{what: "denied by the pod", q: policy.Question{Method: "DELETE", URL: "http://plain.example.com/"}, want: policy.Explanation{Verdict: "deny"}, by: "AuthorizationPolicy/shop/pods rules[0]", podsSays: "deny"},
		{what: "by the Gateway API", q: policy.Question{Gateway: "shop/door", URL: "http://plain.example.com/part"}, want: policy.Explanation{Verdict: "allow", Cluster: "outbound|80||web.shop.svc.cluster.local"}, by: "HTTPRoute/shop/web rules[0].matches[0]"},
		{what: "a backend that is not there", q: policy.Question{Gateway: "shop/door", URL: "http://plain.example.com/missing"}, want: policy.Explanation{Verdict: "deny", Status: 500}, by: "HTTPRoute/shop/web"},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.q.Gateway == "" {
				c.q.Gateway = "shop/public"
			}
			e := answer(t, s, c.q)
			if e.Path != policy.PathIngress || e.Verdict != c.want.Verdict || e.Status != c.want.Status || c.want.Cluster != "" && e.Cluster != c.want.Cluster || c.want.Location != e.Location ||
				c.want.TLS != "" && e.TLS != c.want.TLS || c.want.Gateway != "" && e.Gateway != c.want.Gateway {
				t.Errorf("%+v, want %+v", e, c.want)
			}
			by := e.DecidedBy.Kind + "/" + e.DecidedBy.Namespace + "/" + e.DecidedBy.Name
			if e.DecidedBy.Rule != "" {
				by += " " + e.DecidedBy.Rule
			}
			if by != c.by {
				t.Errorf("decided by %s, want %s: %s", by, c.by, e.Reason)
			}
			if !strings.Contains(e.Reason, c.reason) {
				t.Errorf("%q does not say %q", e.Reason, c.reason)
			}
			if c.podsSays != "" && (len(e.Pods) != 1 || e.Pods[0].Verdict != c.podsSays) {
				t.Errorf("the pods: %+v", e.Pods)
			}
		})
	}
}

// TestEnterByTopology: who is behind the proxies in front of a gateway goes by what its pods say of them, or a Gateway has its pods say, over what the mesh says.
func TestEnterByTopology(t *testing.T) {
	text, err := os.ReadFile("testdata/entering.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const pod = `
---
apiVersion: v1
kind: Pod
metadata: {name: in-1, namespace: istio-ingress, labels: {istio: in}}
spec: {serviceAccountName: in, containers: [{name: istio-proxy, image: proxy, env: [{name: PROXY_CONFIG, value: "gatewayTopology: {numTrustedProxies: 1}"}]}]}
status: {podIP: 10.1.0.9, phase: Running}
`
	const fronted = `{proxy.istio.io/config: "gatewayTopology: {numTrustedProxies: 1}"}`
	door := func(metadata, spec string) string {
		out := strings.Replace(string(text), "metadata: {name: door, namespace: shop}\nspec:\n", "metadata: {name: door, namespace: shop"+metadata+"}\nspec:\n"+spec, 1)
		if out == string(text) {
			t.Fatal("the Gateway is not there")
		}
		return out + `
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: door, namespace: shop}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: door}]
  action: DENY
  rules: [{from: [{source: {remoteIpBlocks: [203.0.113.9/32]}}]}]
`
	}
	for what, c := range map[string]struct {
		objects, gateway, url string
		denied                bool
	}{
		"nobody is believed": {string(text), "shop/public", "http://plain.example.com/", false},
		"a pod's":            {string(text) + pod, "shop/public", "http://plain.example.com/", true},
		"by the Service":     {string(text) + pod, "istio-ingress/in", "http://plain.example.com/", true},
		"by labels":          {string(text) + pod, "istio-ingress/any?istio=in", "http://plain.example.com/", true},
		"of one of the API":  {door("", "  infrastructure: {annotations: "+fronted+"}\n"), "shop/door", "http://plain.example.com/part", true},
		"by its own":         {door(", annotations: "+fronted, ""), "shop/door", "http://plain.example.com/part", true},
		"not by its own":     {door(", annotations: "+fronted, "  infrastructure: {annotations: {a: b}}\n"), "shop/door", "http://plain.example.com/part", false},
	} {
		e := answer(t, read(t, true, c.objects), policy.Question{Gateway: c.gateway, URL: c.url, Address: "192.0.2.7", Headers: []string{"x-forwarded-for=203.0.113.9"}})
		if (e.Verdict == "deny") != c.denied {
			t.Errorf("%s: %s: %s", what, e.Verdict, e.Reason)
		}
	}
	other := strings.NewReplacer("in-1", "in-2", "10.1.0.9", "10.1.0.8", "numTrustedProxies: 1", "").Replace(pod)
	unclear(t, read(t, true, string(text)+pod+other), map[string]string{
		"istio-ingress/any?istio=in": "do not say the same of the proxies in front of them", "istio-ingress/in": "it is several gateways",
	})
}

// TestEnterWho: which gateway is meant has to be said so that it is one.
func TestEnterWho(t *testing.T) {
	text, err := os.ReadFile("testdata/entering.yaml")
	if err != nil {
		t.Fatal(err)
	}
	unclear(t, read(t, true, string(text)), map[string]string{
		"public":                           "must be NAMESPACE/WORKLOAD",
		"shop/nothing":                     "there is no Gateway of that name",
		"shop/web":                         "no Gateway selects the pods",
		"shop/nobody":                      "no Service of pods that Gateway shop/nobody selects is known",
		"shop/leaves":                      "are an egress gateway",
		"istio-ingress/x?istio=none":       "no Gateway selects pods of namespace istio-ingress",
		"istio-system/istio-egressgateway": "egress gateway",
		"shop/wide":                        "it is several gateways",
	})
}

// unclear holds that nobody knows which gateways are meant, with these words.
func unclear(t *testing.T, s *registry.Snapshot, gateways map[string]string) {
	t.Helper()
	for gateway, want := range gateways {
		q := policy.Question{Gateway: gateway, URL: "http://plain.example.com/"}
		d, err := q.Destination()
		if err != nil {
			t.Fatal(err)
		}
		_, err = q.Answer(s, policy.Workload{}, policy.Workload{}, d)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--gateway") {
			t.Errorf("%s: %v, want %q", gateway, err, want)
		}
	}
}
