package serve_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/dir"
	"github.com/sallyport/sallyport/xds/resource"
	nodewire "github.com/sallyport/sallyport/xds/wire"
)

// A mesh without hosts outside: its egress gateway; and one of those.
const (
	gatewayAlone = `apiVersion: v1
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
	oneEntry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: external, namespace: default}
spec:
  hosts: [external.com]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]
`
)

// TestFromFileToWire: a ServiceEntry in a file is a row of the egress gateway's and of a sidecar's, and a name. With profiles of coverage of its two halves,
// docs/adr/0139-files-that-an-entry-passes.md counts the files that one passes through.
func TestFromFileToWire(t *testing.T) {
	t.Run("without", func(t *testing.T) { fromFileToWire(t, "", 0) })
	t.Run("with", func(t *testing.T) { fromFileToWire(t, oneEntry, 2) })
}

// fromFileToWire has both be sent everything of a directory with that file, and expects so many rows.
func fromFileToWire(t *testing.T, file string, rows int) {
	root := t.TempDir()
	for name, text := range map[string]string{"gateway.yaml": gatewayAlone, "entry.yaml": file} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := startPlane(t)
	source := dir.New(root, dir.Options{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- source.Run(ctx, func(batch []config.Change, _ []admission.Finding) { p.publish(batch...) })
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	<-source.Synced()
	exit := &core.Node{Id: "router~10.250.0.1~istio-egressgateway-1.istio-system~istio-system.svc.cluster.local"}
	exit.Metadata, _ = structpb.NewStruct(map[string]any{"LABELS": map[string]any{"istio": "egressgateway"}, "NAMESPACE": "istio-system"})
	sidecar := pod("app", "default")
	sidecar.Metadata, _ = structpb.NewStruct(map[string]any{nodewire.NamesWaitMetadata: "true"})
	for _, n := range []*core.Node{exit, sidecar} {
		c := p.join(n)
		c.ask(resource.VirtualHost)
		var of []string
		for _, r := range c.take().GetResources() {
			if slices.Contains(r.GetAliases(), "external.com") || nameOfHost(r.GetName()) == "external.com" {
				of = append(of, r.GetName())
			}
		}
		if len(of) != rows {
			t.Errorf("%s: rows %v", n.GetId(), of)
		}
		c.ask(resource.Cluster)
		c.take()
	}
}

// nameOfHost is the host in a row's name, TABLE/HOST or TABLE/HOST:PORT.
func nameOfHost(row string) string {
	host := filepath.Base(row)
	for i := range host {
		if host[i] == ':' {
			return host[:i]
		}
	}
	return host
}
