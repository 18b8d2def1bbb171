package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"strings"
)

// An ingress gateway's pod, and the two pods behind it: the first has a sidecar.
var (
	ingressAddr = netip.MustParseAddr("10.77.0.60")
	web1Addr    = netip.MustParseAddr("10.77.0.61")
	web2Addr    = netip.MustParseAddr("10.77.0.62")
)

// ingressPods are what is behind the gateway: a Service, and its pods.
const ingressPods = `---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  clusterIP: 10.96.0.61
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: https, port: 443, targetPort: 8443}
  - {name: tcp, port: 9000, targetPort: 9000}
  - {name: http-all, port: 9686, targetPort: 9686}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports:
- {name: http, port: 8080, protocol: TCP}
- {name: https, port: 8443, protocol: TCP}
- {name: tcp, port: 9000, protocol: TCP}
- {name: http-all, port: 9686, protocol: TCP}
endpoints:
- {addresses: [10.77.0.61], conditions: {ready: true}, targetRef: {kind: Pod, name: web-1, namespace: shop}}
- {addresses: [10.77.0.62], conditions: {ready: true}, targetRef: {kind: Pod, name: web-2, namespace: shop}}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web, version: v1, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: web, containers: []}
status: {podIP: 10.77.0.61, phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: web-2, namespace: shop, labels: {app: web, version: v2}}
spec: {serviceAccountName: web, containers: []}
status: {podIP: 10.77.0.62, phase: Running}
`

// ingressObjects are the gateway and what it leads to, as a cluster shows them.
const ingressObjects = `apiVersion: v1
kind: Service
metadata: {name: istio-ingressgateway, namespace: istio-ingress}
spec:
  clusterIP: 10.96.0.60
  selector: {istio: ingressgateway}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: https, port: 443, targetPort: 8443}
  - {name: tcp, port: 9000, targetPort: 9000}
` + ingressPods + `---
apiVersion: v1
kind: Service
metadata: {name: door, namespace: shop}
spec:
  clusterIP: 10.96.0.69
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: door-1, namespace: shop, labels: {kubernetes.io/service-name: door}}
addressType: IPv4
ports: [{name: http, port: 15012, protocol: TCP}]
endpoints:
- {addresses: [10.77.0.30], conditions: {ready: true}}
- {addresses: [127.0.0.1], conditions: {ready: true}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: shop}
spec:
  host: web.shop.svc.cluster.local
  subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: public, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: [plain.test, live.test]}
  - {port: {number: 80, name: redirect, protocol: HTTP}, hosts: [shop.test], tls: {httpsRedirect: true}}
  - {port: {number: 443, name: https, protocol: HTTPS}, hosts: [shop.test, other.test], tls: {mode: SIMPLE, credentialName: shop-cert}}
  - {port: {number: 443, name: mutual, protocol: HTTPS}, hosts: [bank.test], tls: {mode: MUTUAL, credentialName: bank-cert}}
  - {port: {number: 443, name: passed, protocol: TLS}, hosts: [passed.test], tls: {mode: PASSTHROUGH}}
  - {port: {number: 9000, name: tcp, protocol: TCP}, hosts: ["*"]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  hosts: [plain.test, shop.test, bank.test]
  gateways: [public]
  http:
  - match: [{uri: {prefix: /shares}}]
    route:
    - {destination: {host: web, port: {number: 80}, subset: v1}, weight: 75}
    - {destination: {host: web, port: {number: 80}, subset: v2}, weight: 25}
  - {match: [{uri: {exact: /whole}}], route: [{destination: {host: web, port: {number: 9686}, subset: v1}}]}
  - {match: [{uri: {prefix: /moved}}], redirect: {uri: /v1, authority: elsewhere.test}}
  - {match: [{uri: {prefix: /itself}}], route: [{destination: {host: istio-ingressgateway.istio-ingress.svc.cluster.local, port: {number: 80}}}]}
  - {match: [{uri: {prefix: /door}}], route: [{destination: {host: door, port: {number: 80}}}]}
  - {match: [{uri: {prefix: /outside}}], route: [{destination: {host: external.com, port: {number: 80}}}]}
  - {route: [{destination: {host: web, port: {number: 80}, subset: v1}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: bytes, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  hosts: [passed.test]
  gateways: [public]
  tls: [{match: [{sniHosts: [passed.test]}], route: [{destination: {host: web, port: {number: 443}, subset: v2}}]}]
  tcp: [{match: [{port: 9000}], route: [{destination: {host: web, port: {number: 9000}, subset: v2}}]}]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: theirs, namespace: neighbour, creationTimestamp: "2026-02-01T00:00:00Z"}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: [plain.test, theirs.test]}
  - {port: {number: 443, name: https, protocol: HTTPS}, hosts: [shop.test, bank.test], tls: {mode: SIMPLE, credentialName: shop-cert}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: theirs, namespace: neighbour, creationTimestamp: "2026-02-01T00:00:00Z"}
spec:
  hosts: [plain.test, shop.test, bank.test, theirs.test]
  gateways: [theirs, shop/public]
  http: [{directResponse: {status: 418}}]
`

// liveName is one more name of the gateway.
const liveName = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: live, namespace: shop}
spec:
  hosts: [live.test]
  gateways: [public]
  http: [{route: [{destination: {host: web, port: {number: 80}, subset: v2}}]}]
`

// secretOf is a Secret with a certificate, and with whom to trust where that is given.
func secretOf(name string, c *tls.Certificate, roots []byte) string {
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		panic(err)
	}
	var chain bytes.Buffer
	for _, der := range c.Certificate {
		if err := pem.Encode(&chain, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			panic(err)
		}
	}
	text := "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + ", namespace: istio-ingress}\ntype: kubernetes.io/tls\nstringData:\n"
	for _, v := range []struct {
		name    string
		content []byte
	}{{"tls.crt", chain.Bytes()}, {"tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})}, {"ca.crt", roots}} {
		if len(v.content) > 0 {
			text += "  " + v.name + ": |\n    " + strings.ReplaceAll(strings.TrimSpace(string(v.content)), "\n", "\n    ") + "\n"
		}
	}
	return text
}
