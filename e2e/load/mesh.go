package load

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The gateway that all hosts leave by: the mesh's default one.
const (
	gatewayNamespace = "istio-system"
	gatewayIP        = "10.250.0.1"
	gatewayObjects   = `apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec:
  selector: {istio: egressgateway}
  clusterIP: 10.251.0.1
  ports: [{name: https, port: 443, targetPort: 8443}]
---
apiVersion: v1
kind: Pod
metadata: {name: istio-egressgateway-1, namespace: istio-system, labels: {istio: egressgateway}}
spec: {serviceAccountName: istio-egressgateway}
status: {phase: Running, podIP: 10.250.0.1}
`
)

// namespaces is how many there are that have workloads and entries.
const namespaces = 50

func namespace(i int) string {
	if i%namespaces == 7 {
		return "load"
	}
	return fmt.Sprintf("team-%d", i%namespaces)
}

// mesh is a configuration directory, with the file of mesh-wide settings beside it.
type mesh struct{ objects, settings string }

// writeMesh fills a directory: the egress gateway, and what there is many of.
func writeMesh(dir string, s shape, o Options) (mesh, error) {
	m := mesh{objects: filepath.Join(dir, "objects"), settings: filepath.Join(dir, "settings", "mesh.yaml")}
	for _, d := range []string{m.objects, filepath.Dir(m.settings)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return m, err
		}
	}
	if err := os.WriteFile(filepath.Join(m.objects, "gateway.yaml"), []byte(gatewayObjects), 0o644); err != nil {
		return m, err
	}
	if err := s.write(m, o); err != nil {
		return m, err
	}
	return m, m.setPolicy("ALLOW_ANY")
}

// writeEntries fills a directory with a file for each host, of one ServiceEntry. A percentage of them is private to its namespace.
func (m mesh) writeEntries(o Options) error {
	for i := range o.Entries {
		e := entry{
			name: fmt.Sprintf("entry-%d", i), namespace: namespace(i), host: fmt.Sprintf("api.service-%d.example.com", i),
			private: i/namespaces*o.Private%100 < o.Private,
		}
		if err := os.WriteFile(m.file(e), []byte(e.yaml()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// entry is a ServiceEntry for one host outside, with an HTTP and a TLS port.
type entry struct {
	name, namespace, host string
	address               string // "" for none
	private               bool
}

func (e entry) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s, namespace: %s}\nspec:\n", e.name, e.namespace)
	fmt.Fprintf(&b, "  hosts: [%s]\n  location: MESH_EXTERNAL\n  resolution: DNS\n", e.host)
	if e.address != "" {
		fmt.Fprintf(&b, "  addresses: [%s]\n", e.address)
	}
	if e.private {
		b.WriteString("  exportTo: [.]\n")
	}
	b.WriteString("  ports:\n  - {number: 80, name: http, protocol: HTTP}\n  - {number: 443, name: tls, protocol: TLS}\n")
	return b.String()
}

func (m mesh) file(e entry) string {
	return filepath.Join(m.objects, e.namespace+"."+e.name+".yaml")
}

// put writes an entry's file at once: under another name first.
func (m mesh) put(e entry) error {
	return replace(m.file(e), e.yaml())
}

func (m mesh) remove(e entry) error { return os.Remove(m.file(e)) }

// setPolicy says what happens to hosts that nobody registered: ALLOW_ANY or REGISTRY_ONLY.
func (m mesh) setPolicy(mode string) error {
	return replace(m.settings, "outboundTrafficPolicy: {mode: "+mode+"}\n")
}

func replace(file, text string) error {
	staged := filepath.Join(filepath.Dir(file), ".staged")
	if err := os.WriteFile(staged, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(staged, file)
}
