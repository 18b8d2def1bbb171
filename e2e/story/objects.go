package story

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"text/template"
)

// ConfigDir is the directory that the control plane watches.
type ConfigDir struct {
	Path string
	// staging is beside the directory, on the same file system: files appear in Path whole or not at all.
	staging string
}

// newConfigDir makes the directory inside the run's.
func newConfigDir(in string) (ConfigDir, error) {
	c := ConfigDir{Path: filepath.Join(in, "config"), staging: filepath.Join(in, "staging")}
	return c, errors.Join(os.Mkdir(c.Path, 0o755), os.Mkdir(c.staging, 0o755))
}

// Write puts a file into the directory. Without content it is removed: an empty file keeps its objects (docs/adr/0182-what-closes-outlasts-a-restart.md).
func (c ConfigDir) Write(name, content string) error {
	if content == "" {
		if err := c.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return replaceFile(c.staging, filepath.Join(c.Path, name), content)
}

// Remove takes a file away.
func (c ConfigDir) Remove(name string) error { return os.Remove(filepath.Join(c.Path, name)) }

// Has tells whether the file is there.
func (c ConfigDir) Has(name string) bool {
	_, err := os.Stat(filepath.Join(c.Path, name))
	return err == nil
}

func replaceFile(staging, path, content string) error {
	temporary := filepath.Join(staging, filepath.Base(path))
	if err := os.WriteFile(temporary, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

var serviceEntry = template.Must(template.New("ServiceEntry").Parse(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata:
  name: {{.Name}}
  namespace: default
spec:
  hosts: [{{.Host}}]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: {{.HTTP}}, name: http, protocol: HTTP}
  - {number: {{.HTTPS}}, name: https, protocol: HTTPS}
`))

// entry is the one object that a user writes to let a host of the outside be reached.
func (s *Scene) entry(name, host string) string {
	var b bytes.Buffer
	err := serviceEntry.Execute(&b, struct {
		Name, Host  string
		HTTP, HTTPS uint16
	}{name, host, s.Outside.HTTPPort, s.Outside.HTTPSPort})
	if err != nil {
		panic(err) // the template and its data are both in this file
	}
	return b.String()
}

// gatewayObjects is the egress gateway as its installation leaves it, and the pods as Kubernetes shows them.
const gatewayObjects = `apiVersion: v1
kind: Service
metadata:
  name: istio-egressgateway
  namespace: istio-system
spec:
  selector: {istio: egressgateway}
  ports:
  - {name: https, port: 443, targetPort: 8443, protocol: TCP}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: istio-egressgateway-1
  namespace: istio-system
  labels: {kubernetes.io/service-name: istio-egressgateway}
addressType: IPv4
ports:
- {name: https, port: 8443, protocol: TCP}
endpoints:
- addresses: [10.77.0.20]
  conditions: {ready: true}
  targetRef: {kind: Pod, name: egress-1, namespace: istio-system}
---
apiVersion: v1
kind: Pod
metadata:
  name: egress-1
  namespace: istio-system
  labels: {istio: egressgateway, app: istio-egressgateway}
spec:
  serviceAccountName: istio-egressgateway-service-account
  containers: []
status:
  podIP: 10.77.0.20
  phase: Running
---
apiVersion: v1
kind: Pod
metadata:
  name: app-1
  namespace: default
  labels: {app: app}
spec:
  serviceAccountName: app
  containers: []
status:
  podIP: 10.77.0.10
  phase: Running
`
