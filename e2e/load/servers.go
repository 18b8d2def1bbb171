package load

import (
	"fmt"
	"os"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// serversEach is how many servers a Gateway of Istio's has: as many as an owner of many names might write in one.
const serversEach = 100

// istioIngress is the Service of the pods that those Gateways select.
const istioIngress = `apiVersion: v1
kind: Service
metadata: {name: istio-ingressgateway, namespace: ingress}
spec: {selector: {istio: ingressgateway}, clusterIP: 10.251.0.2, ports: [{name: https, port: 443, targetPort: 8443}]}
`

// findingOfIstio is a pod that they select, as finding is one of a Gateway of the Gateway API's.
func findingOfIstio(i int) *core.Node {
	return node("router", fmt.Sprintf("10.252.%d.%d", i/250, 1+i%250), fmt.Sprintf("ingress-%d", i), "ingress",
		map[string]any{"LABELS": map[string]any{"istio": "ingressgateway"}, certificatesKey: "true"})
}

// writeServers fills a directory with Gateways of many servers, each of a name with a Secret and a VirtualService.
func (m mesh) writeServers(o Options) error {
	if err := os.WriteFile(m.named("ingress"), []byte(istioIngress), 0o644); err != nil {
		return err
	}
	if err := m.writeWebs(); err != nil {
		return err
	}
	for first := 0; first < o.Entries; first += serversEach {
		var servers []string
		gateway := fmt.Sprintf("public-%d", first/serversEach)
		for i := first; i < min(first+serversEach, o.Entries); i++ {
			name, host := fmt.Sprintf("shop-%d", i), fmt.Sprintf("www.shop-%d.example.com", i)
			text, err := servedName(name, namespace(i), host, gateway, 80)
			if err != nil {
				return err
			}
			if err := os.WriteFile(m.named(name), []byte(text), 0o644); err != nil {
				return err
			}
			servers = append(servers, server(name, host))
		}
		if err := os.WriteFile(m.named(gateway), []byte(istioGateway(gateway, servers...)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func istioGateway(name string, servers ...string) string {
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: %s, namespace: ingress}\nspec:\n  selector: {istio: ingressgateway}\n  servers:\n%s", name, strings.Join(servers, ""))
}

func server(name, host string) string {
	return fmt.Sprintf("  - {port: {number: 443, name: %[1]s, protocol: HTTPS}, hosts: [\"*/%[2]s\"], tls: {mode: SIMPLE, credentialName: %[1]s}}\n", name, host)
}

// servedName are the objects of one name beside its server: the certificate, which is the gateway's namespace's, and the route.
func servedName(name, ns, host, gateway string, port int) (string, error) {
	certificate, key, err := selfSigned(host)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata: {name: %[1]s, namespace: ingress}
data: {tls.crt: %[4]s, tls.key: %[5]s}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %[1]s, namespace: %[2]s}
spec: {hosts: [%[3]s], gateways: [ingress/%[7]s], http: [{route: [{destination: {host: web, port: {number: %[6]d}}}]}]}
`, name, ns, host, certificate, key, port, gateway), nil
}

// serverSteps has a name come with a Gateway of its own, its route lead elsewhere, and all of it go.
func (m mesh) serverSteps(round int) []step {
	name, host := fmt.Sprintf("new-%d", round), fmt.Sprintf("new-%d.load.example.org", round)
	put := func(port int) func() error {
		return func() error {
			text, err := servedName(name, namespace(0), host, "public-"+name, port)
			if err != nil {
				return err
			}
			return replace(m.named(name), istioGateway("public-"+name, server(name, host))+"---\n"+text)
		}
	}
	return []step{{"added", host, put(80), nil}, {"changed", host, put(81), nil}, {"removed", host, func() error { return os.Remove(m.named(name)) }, nil}}
}
