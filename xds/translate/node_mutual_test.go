package translate_test

import (
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestNodeKeepsOthersTLS: where another namespace's rule asks for TLS, whoever it is exported to, the proxy of a node speaks it as the pod or sends nothing.
func TestNodeKeepsOthersTLS(t *testing.T) {
	const services = `
apiVersion: v1
kind: Service
metadata: {name: db, namespace: bank}
spec: {clusterIP: 10.0.0.9, selector: {app: db}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: plain, namespace: bank}
spec: {clusterIP: 10.0.0.10, selector: {app: db}, ports: [{name: http, port: 80}]}
---
`
	for _, exports := range []string{"'*'", "shop"} {
		for mode, shows := range map[string]bool{"ISTIO_MUTUAL": true, "MUTUAL, credentialName: c": false} {
			settings := mesh.Default()
			settings.MutualTLS, settings.AutoMTLS = true, true
			read := decode.File("a.yaml", []byte(services+"apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: r, namespace: bank}\nspec: {host: db.bank.svc.cluster.local, exportTo: ["+exports+"], trafficPolicy: {tls: {mode: "+mode+"}}}\n"))
			if len(read.Findings) > 0 {
				t.Fatal(read.Findings)
			}
			s := testCase{objects: read.Objects, mesh: settings}.snapshot()
			if why := translate.UnsupportedPod(s, "shop", nil); why != "" {
				t.Errorf("%s to %s: shop's pods are not served: %s", mode, exports, why)
			}
			v := translate.NewTranslator().Build(s, translate.Classify(s, translate.Node{ID: "ztunnel~10.0.0.7~a.n~n.svc.cluster.local", Serves: "shop", OwnTables: true}))
			// to is the cluster that shop's requests to a host go to; nil where they go nowhere.
			to := func(host string) (c *clusterv3.Cluster) {
				row, own := v.Get(resource.VirtualHost, wire.VhostName(wire.OwnName("shop", "80"), host))
				if !own {
					row, _ = v.Get(resource.VirtualHost, wire.VhostName("80", host))
				}
				vh := &routev3.VirtualHost{}
				must(proto.Unmarshal(row.Value(), vh))
				envoy.RenameClusters(vh.Routes, func(name string) string {
					if r, there := v.Get(resource.Cluster, name); there && wire.HostOf(name) == host {
						c = &clusterv3.Cluster{}
						must(proto.Unmarshal(r.Value(), c))
					}
					return name
				})
				return c
			}
			c := to("db.bank.svc.cluster.local")
			var tls tlsv3.UpstreamTlsContext
			switch {
			case !shows && c != nil:
				t.Errorf("%s to %s: something is sent: %v", mode, exports, c)
			case shows && (c.GetTransportSocket().GetTypedConfig().UnmarshalTo(&tls) != nil || tls.GetCommonTlsContext().GetCustomTlsCertificateSelector() == nil):
				t.Errorf("%s to %s: the pod's certificate is not shown: %v", mode, exports, c.GetTransportSocket())
			}
			if c := to("plain.bank.svc.cluster.local"); c == nil || c.TransportSocket != nil {
				t.Errorf("%s to %s: another Service is %v", mode, exports, c)
			}
		}
	}
}

// TestWhoComesIsKeptFirst: a pod's listener keeps its client's address before it waits for anything: Envoy skips what is left of a listener's filters when that takes too long.
func TestWhoComesIsKeptFirst(t *testing.T) {
	const strict = "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: strict, namespace: shop}\nspec: {mtls: {mode: STRICT}}\n"
	settings := mesh.Default()
	settings.MutualTLS = true
	read := decode.File("a.yaml", []byte(strict))
	if len(read.Findings) > 0 {
		t.Fatal(read.Findings)
	}
	l := &listenerv3.Listener{}
	templates, _ := (&translate.PodListeners{}).Of(testCase{objects: read.Objects, mesh: settings}.snapshot(), "shop/a", "shop", nil)
	must(proto.Unmarshal(templates[ambient.PodInbound], l))
	var names []string
	for _, f := range l.ListenerFilters {
		names = append(names, f.Name)
	}
	kept, waits := slices.Index(names, "envoy.filters.listener.original_src"), slices.Index(names, "envoy.filters.listener.tls_inspector")
	if kept < 0 || waits < kept {
		t.Errorf("the filters are %v", names)
	}
}

// TestNodesSpeakMutualTLS: what an ambient pod sends to a Service goes by mutual TLS, with the pod's own certificate, to those of its pods that take it.
func TestNodesSpeakMutualTLS(t *testing.T) {
	const objects = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.0.0.9, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web, security.istio.io/tlsMode: istio}}
spec: {nodeName: node-1, serviceAccountName: web}
status: {phase: Running, podIP: 10.1.0.2}
`
	settings := mesh.Default()
	settings.MutualTLS, settings.AutoMTLS = true, true
	read := decode.File("a.yaml", []byte(objects))
	if len(read.Findings) > 0 {
		t.Fatal(read.Findings)
	}
	s := testCase{objects: read.Objects, mesh: settings}.snapshot()
	v := translate.NewTranslator().Build(s, translate.Classify(s, translate.Node{ID: "ztunnel~10.0.0.7~a.n~n.svc.cluster.local", OwnTables: true}))
	r, there := v.Get(resource.Cluster, "outbound|80||web.shop.svc.cluster.local")
	if !there {
		t.Fatal("there is no cluster of the Service")
	}
	c := &clusterv3.Cluster{}
	must(proto.Unmarshal(r.Value(), c))
	if len(c.TransportSocketMatches) != 1 || c.TransportSocket != nil {
		t.Fatalf("its transport sockets are %v and %v", c.TransportSocketMatches, c.TransportSocket)
	}
	var tls tlsv3.UpstreamTlsContext
	must(c.TransportSocketMatches[0].TransportSocket.GetTypedConfig().UnmarshalTo(&tls))
	if common := tls.GetCommonTlsContext(); common.GetCustomTlsCertificateSelector() == nil || len(common.GetTlsCertificateSdsSecretConfigs()) > 0 {
		t.Errorf("it is not the pod's certificate that is shown: %v", common)
	}
}
