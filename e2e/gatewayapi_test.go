package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/world"
)

// gatewayAPIObjects say by the Gateway API what an ingress gateway does; other routes of other namespaces find no way in.
const gatewayAPIObjects = `apiVersion: v1
kind: Service
metadata: {name: public-sallyport, namespace: istio-ingress}
spec:
  clusterIP: 10.96.0.60
  selector: {gateway.networking.k8s.io/gateway-name: public}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: https, port: 443, targetPort: 8443}
  - {name: tcp, port: 9000, targetPort: 9000}
  - {name: udp, port: 9000, protocol: UDP, targetPort: 9000}
---
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: shop}
spec: {clusterIP: 10.96.0.67, selector: {app: web, version: v1}, ports: [{name: udp, port: 7, protocol: UDP, targetPort: 9000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: echo-1, namespace: shop, labels: {kubernetes.io/service-name: echo}}
addressType: IPv4
ports: [{name: udp, port: 9000, protocol: UDP}]
endpoints: [{addresses: [10.77.0.61], conditions: {ready: true}, targetRef: {kind: Pod, name: web-1, namespace: shop}}]
---
apiVersion: v1
kind: Pod
metadata: {name: ingress-1, namespace: istio-ingress, labels: {gateway.networking.k8s.io/gateway-name: public}}
spec: {serviceAccountName: istio-ingressgateway-service-account, containers: []}
status: {podIP: 10.77.0.60, phase: Running}
` + ingressPods + `---
apiVersion: v1
kind: Service
metadata: {name: private, namespace: bank}
spec:
  clusterIP: 10.96.0.68
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: private-1, namespace: bank, labels: {kubernetes.io/service-name: private}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.77.0.62], conditions: {ready: true}}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: inner, namespace: istio-system}
spec: {hosts: [inner.test], ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8099}], resolution: STATIC, location: MESH_INTERNAL, endpoints: [{address: 203.0.113.53}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: outside, namespace: istio-system}
spec: {hosts: [outside.test], ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8099}], resolution: STATIC, location: MESH_EXTERNAL, endpoints: [{address: 203.0.113.53}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: sallyport}
spec: {controllerName: egress.sallyport.io/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: istio-ingress}
spec:
  gatewayClassName: sallyport
  listeners:
  - {name: http, port: 80, protocol: HTTP, hostname: "*.test", allowedRoutes: {namespaces: {from: All}}}
  - {name: own, port: 80, protocol: HTTP, hostname: own.test}
  - {name: https, port: 443, protocol: HTTPS, hostname: shop.test, tls: {certificateRefs: [{name: shop-cert}]}, allowedRoutes: {namespaces: {from: All}}}
  - {name: passed, port: 443, protocol: TLS, hostname: passed.test, tls: {mode: Passthrough}, allowedRoutes: {namespaces: {from: All}}}
  - {name: tcp, port: 9000, protocol: TCP, allowedRoutes: {namespaces: {from: All}}}
  - {name: udp, port: 9000, protocol: UDP, allowedRoutes: {namespaces: {from: All}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: shop}
spec:
  parentRefs: [{name: public, namespace: istio-ingress}]
  hostnames: [plain.test, shop.test, own.test]
  rules:
  - backendRefs: [{name: web, port: 80}]
    filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Forwarded-For, value: replaced}]}}]
  - matches: [{path: {type: PathPrefix, value: /part}}]
    filters: [{type: URLRewrite, urlRewrite: {hostname: inner.test, path: {type: ReplacePrefixMatch, replacePrefixMatch: /whole}}}]
    backendRefs: [{name: web, port: 80}]
  - matches: [{path: {type: Exact, value: /part/moved}}]
    filters: [{type: RequestRedirect, requestRedirect: {scheme: https, hostname: elsewhere.test, statusCode: 302}}]
  - matches: [{path: {type: PathPrefix, value: /missing}}]
    backendRefs: [{name: missing, port: 80}]
  - matches: [{path: {type: PathPrefix, value: /private}}]
    backendRefs: [{name: private, namespace: bank, port: 80}]
  - matches: [{path: {type: PathPrefix, value: /host}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: inner.test, port: 80}]
  - matches: [{path: {type: PathPrefix, value: /outside}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: outside.test, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: passed, namespace: shop}
spec:
  parentRefs: [{name: public, namespace: istio-ingress}]
  hostnames: [passed.test]
  rules: [{backendRefs: [{name: web, port: 443}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: bytes, namespace: shop}
spec:
  parentRefs: [{name: public, namespace: istio-ingress, sectionName: tcp}]
  rules: [{backendRefs: [{name: web, port: 9000}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: late, namespace: neighbour, creationTimestamp: "2026-02-01T00:00:00Z"}
spec:
  parentRefs: [{name: public, namespace: istio-ingress}]
  hostnames: [plain.test]
  rules:
  - filters: [{type: RequestRedirect, requestRedirect: {hostname: theirs.test}}]
`

// grantObjects lets routes of one namespace lead to another's Service.
const grantObjects = `apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: shop, namespace: bank}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: shop}]
  to: [{group: "", kind: Service}]
`

// TestGatewayAPI: what comes in goes where Gateways and routes of the Gateway API say.
func TestGatewayAPI(t *testing.T) {
	needRoot(t)
	t.Parallel()
	in := newIngressOf(t, gatewayAPIObjects, "gateway.networking.k8s.io/gateway-name=public")
	inOrder(t, []part{
		{"requests", in.apiRequests},
		{"TLS passes", in.passesTLSAnyhow},
		{"bytes", in.bytesAnyhow},
		{"a grant", in.granted},
		{"a backend's TLS", in.backendTLS},
		{"sessions", in.sessionsKept},
		{"authorizers", in.askedByRoute},
		{"explain", in.explainGatewayAPI},
		{"datagrams", in.datagrams},
	})
}

// answered gets a page, and holds status, Location and the body's middle: the host and path that the pod was asked for, and X-Forwarded-For.
func (in *ingressScene) answered(t *testing.T, url string, status int, location, asked string) error {
	t.Helper()
	resp, body, err := in.get(t.Context(), url, in.trusting())
	if err != nil {
		return err
	}
	if resp.StatusCode != status || resp.Header.Get("Location") != location || asked != "" && !strings.Contains(body, asked) {
		return fmt.Errorf("%s: %s, Location %q, %q; want %d, %q, %q", url, resp.Status, resp.Header.Get("Location"), body, status, location, asked)
	}
	return nil
}

func (in *ingressScene) apiRequests(t *testing.T) {
	in.serveHost(t)
	for _, x := range []struct {
		url             string
		status          int
		location, asked string
	}{
		{"http://plain.test/", 200, "", " plain.test / replaced "},
		{"http://plain.test/part/of", 200, "", " inner.test /whole/of "},
		{"http://plain.test/part", 200, "", " inner.test /whole "},
		{"http://plain.test/party", 200, "", " plain.test /party replaced "},
		{"http://plain.test/part/moved", 302, "https://elsewhere.test/part/moved", ""},
		{"http://plain.test/missing", 500, "", ""},
		{"http://plain.test/private", 500, "", ""},
		{"http://plain.test/host", 200, "", "a host plain.test /host"},
		{"http://plain.test/outside", 500, "", ""},
		{"https://shop.test/x", 200, "", " shop.test /x replaced "},
		{"http://own.test/", 404, "", ""}, // the more specific listener has it, and lets its own namespace's routes alone
		{"http://unknown.test/", 404, "", ""},
	} {
		if err := in.answered(t, x.url, x.status, x.location, x.asked); err != nil {
			t.Error(err)
		}
	}
}

// serveHost is what the entries are about: a host that has an address which gateways may lead to.
func (in *ingressScene) serveHost(t *testing.T) {
	t.Helper()
	l, err := in.client.Listen(net.JoinHostPort(world.NameServerAddr.String(), "8099"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintln(w, "a host", r.Host, r.URL.Path)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
}

func (in *ingressScene) passesTLSAnyhow(t *testing.T) {
	resp, body, err := in.get(t.Context(), "https://passed.test/x", in.trusting())
	if err != nil || resp.StatusCode != 200 || !strings.Contains(body, " passed.test /x ") {
		t.Errorf("%v %q (%v)", resp, body, err)
	}
	if resp, body, err := in.get(t.Context(), "https://nobody.test/x", in.trusting()); err == nil {
		t.Errorf("a name that is nobody's: %v %q", resp, body)
	}
}

func (in *ingressScene) bytesAnyhow(t *testing.T) {
	c, r := in.greeted(t)
	_, err := io.WriteString(c, "back\n")
	line, readErr := r.ReadString('\n')
	if err = errors.Join(err, readErr); err != nil || line != "back\n" {
		t.Errorf("%q (%v)", line, err)
	}
}

// backendTLS: a BackendTLSPolicy has the gateway speak TLS to a Service, by the name and with the roots that it says, live; where those do not vouch for who answers, nothing is sent.
func (in *ingressScene) backendTLS(t *testing.T) {
	roots := func(name string, ca *outside.CA) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: shop}\ndata:\n  ca.crt: |\n    " + strings.ReplaceAll(strings.TrimSpace(string(ca.PEM())), "\n", "\n    ") + "\n"
	}
	policy := func(name, roots string) string {
		return `apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: web, namespace: shop}
spec:
  targetRefs: [{group: "", kind: Service, name: web, sectionName: https}]
  validation: {hostname: ` + name + `, caCertificateRefs: [{group: "", kind: ConfigMap, name: ` + roots + `}]}
`
	}
	in.write(t, "backend", `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: backend, namespace: shop}
spec:
  parentRefs: [{name: public, namespace: istio-ingress}]
  hostnames: [backend.test]
  rules: [{backendRefs: [{name: web, port: 443}]}]
`)
	in.write(t, "backend-roots", roots("backend-roots", in.ca))
	in.write(t, "other-roots", roots("other-roots", in.clients))
	within := func(what string, status int, asked string) {
		t.Helper()
		err := world.Within(t.Context(), time.Minute, func() error {
			return in.answered(t, "http://backend.test/x", status, "", asked)
		})
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	within("without a word of TLS", http.StatusInternalServerError, "")
	in.write(t, "backend-policy", policy("passed.test", "backend-roots"))
	within("by the backend's name", http.StatusOK, " backend.test /x ")
	in.write(t, "backend-policy", policy("other.test", "backend-roots"))
	within("by another name", http.StatusServiceUnavailable, "")
	in.write(t, "backend-policy", policy("passed.test", "backend-roots"))
	within("by its name again", http.StatusOK, " backend.test /x ")
	in.write(t, "backend-policy", policy("passed.test", "other-roots"))
	within("of others' roots", http.StatusServiceUnavailable, "")
	if err := in.answered(t, "http://plain.test/", http.StatusOK, "", " plain.test / "); err != nil {
		t.Errorf("another port of the Service: %v", err)
	}
}

// granted: another namespace's Service is led to while it grants that.
func (in *ingressScene) granted(t *testing.T) {
	within := func(status int) {
		t.Helper()
		if err := world.Within(t.Context(), time.Minute, func() error { return in.answered(t, "http://plain.test/private", status, "", "") }); err != nil {
			t.Error(err)
		}
	}
	if err := in.scene.Config.Write("grant.yaml", grantObjects); err != nil {
		t.Fatal(err)
	}
	within(200)
	if err := in.scene.Config.Remove("grant.yaml"); err != nil {
		t.Fatal(err)
	}
	within(500)
}
