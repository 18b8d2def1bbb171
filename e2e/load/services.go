package load

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// endpointsEach is how many endpoints a Service has.
const endpointsEach = 10

// writeServices fills a directory with Services, and a slice of endpoints for each.
func (m mesh) writeServices(o Options) error { return m.servicesFor(o, "{}") }

// servicesFor does so with Services that select pods, by a pattern that has their number for the app's.
func (m mesh) servicesFor(o Options, selector string) error {
	for i := range o.Entries {
		text := fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: %s}\nspec: {clusterIP: 10.%d.%d.%d, selector: %s, ports: [{name: http, port: 80, targetPort: 8080}]}\n",
			serviceName(i), namespace(i), 200+i/62500, i/250%250, 1+i%250, strings.ReplaceAll(selector, "APP", appOf(i/namespaces)))
		if err := os.WriteFile(m.named(serviceName(i)), []byte(text), 0o644); err != nil {
			return err
		}
		if err := m.putEndpoints(i, 0); err != nil {
			return err
		}
	}
	return nil
}

func serviceName(i int) string { return fmt.Sprintf("service-%d", i) }

func (m mesh) named(name string) string { return filepath.Join(m.objects, name+".yaml") }

// putEndpoints writes the endpoints of a Service, of which one has an address that differs from round to round.
func (m mesh) putEndpoints(i, round int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %s-1, namespace: %s, labels: {kubernetes.io/service-name: %[1]s}}\n", serviceName(i), namespace(i))
	b.WriteString("addressType: IPv4\nports: [{name: http, port: 8080, protocol: TCP}]\nendpoints:\n")
	for e := range endpointsEach {
		n := i*endpointsEach + e
		address := fmt.Sprintf("10.%d.%d.%d", 100+n/62500, n/250%250, 1+n%250)
		if e == 0 && round > 0 {
			address = fmt.Sprintf("10.199.%d.%d", round/250, 1+round%250)
		}
		fmt.Fprintf(&b, "- {addresses: [%s], conditions: {ready: true}}\n", address)
	}
	return replace(m.named(serviceName(i)+"-endpoints"), b.String())
}

// endpointSteps has one endpoint of the first Service become another three times.
func (m mesh) endpointSteps(round int) (out []step) {
	for n := range 3 {
		out = append(out, step{"changed", serviceName(0) + "." + namespace(0) + ".svc.cluster.local", func() error { return m.putEndpoints(0, 3*round+n+1) }, nil})
	}
	return out
}
