package e2e

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// Where the servers of the app's own namespace are, and those of a neighbour who would like to be them. Each says which it is.
var (
	ownServer  = netip.MustParseAddr("203.0.113.97")
	evilServer = netip.MustParseAddr("203.0.113.98")
	freeServer = netip.MustParseAddr("203.0.113.96") // nobody registers it
)

const (
	neighboursHTTP = 9301
	neighboursTCP  = 9302
)

// victimObjects are what the app's namespace has: a host by name, one by labels, one by address, a Service with an address of the cluster's, and a pattern.
const victimObjects = `
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: named, namespace: default, creationTimestamp: "2026-02-01T00:00:00Z"}, spec: {hosts: [named.own.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 9301, name: http, protocol: HTTP}, {number: 9302, name: tcp, protocol: TCP}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: labelled, namespace: default}, spec: {hosts: [labelled.own.test], location: MESH_INTERNAL, resolution: STATIC, workloadSelector: {labels: {app: pay}}, ports: [{number: 9301, name: http, protocol: HTTP}, {number: 9302, name: tcp, protocol: TCP}]}}
---
{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: pay, namespace: default}, spec: {address: 203.0.113.97, labels: {app: pay}}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: range, namespace: default}, spec: {hosts: [range.own.test], addresses: [203.0.113.97/32], location: MESH_EXTERNAL, resolution: NONE, ports: [{number: 9302, name: tcp, protocol: TCP}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: pay, namespace: default}, spec: {clusterIP: 10.96.0.97, selector: {app: pay}, ports: [{name: http, port: 9301}, {name: tcp, port: 9302}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: pattern, namespace: default}, spec: {hosts: ["*.pattern.test"], location: MESH_EXTERNAL, resolution: DYNAMIC_DNS, ports: [{number: 9301, name: http, protocol: HTTP}]}}
`

// evilObjects are what a neighbour writes, older where age counts.
const evilObjects = `
{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: pay, namespace: team-b}, spec: {address: 203.0.113.98, labels: {app: pay}}}
---
{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: pay-too, namespace: team-b}, spec: {address: 203.0.113.98, serviceAccount: app, weight: 1000, labels: {app: pay}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: pay-1, namespace: team-b, labels: {app: pay}}, spec: {containers: []}, status: {phase: Running, podIP: 203.0.113.98}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: same, namespace: team-b, creationTimestamp: "2020-01-01T00:00:00Z"}, spec: {hosts: [named.own.test, labelled.own.test, x.pattern.test], location: MESH_EXTERNAL, resolution: STATIC, endpoints: [{address: 203.0.113.98}], ports: [{number: 9301, name: http, protocol: HTTP}, {number: 9302, name: tcp, protocol: TCP}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: led, namespace: team-b, creationTimestamp: "2020-01-01T00:00:00Z"}, spec: {hosts: [named.own.test, y.pattern.test, "*.own.test"], location: MESH_EXTERNAL, resolution: DYNAMIC_DNS, ports: [{number: 9301, name: http, protocol: TCP}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: addresses, namespace: team-b, creationTimestamp: "2020-01-01T00:00:00Z"}, spec: {hosts: [addresses.evil.test], addresses: [203.0.113.97, 203.0.113.96, 10.96.0.97], location: MESH_EXTERNAL, resolution: STATIC, endpoints: [{address: 203.0.113.98}], ports: [{number: 9302, name: tcp, protocol: TCP}, {number: 9301, name: http, protocol: TCP}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: ranges, namespace: team-b, creationTimestamp: "2020-01-01T00:00:00Z"}, spec: {hosts: [ranges.evil.test], addresses: [203.0.113.0/24, 203.0.113.96/31, 10.96.0.0/16, 10.77.0.0/16, 240.240.0.0/16, 128.0.0.0/1], location: MESH_EXTERNAL, resolution: STATIC, endpoints: [{address: 203.0.113.98}], ports: [{number: 9302, name: tcp, protocol: TCP}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: resolved, namespace: team-b, creationTimestamp: "2020-01-01T00:00:00Z"}, spec: {hosts: [resolved.evil.test], addresses: [203.0.113.96, 203.0.113.97], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 9302, name: tcp, protocol: TCP}]}}
---
{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: routes, namespace: team-b, creationTimestamp: "2020-01-01T00:00:00Z"}, spec: {hosts: [named.own.test, labelled.own.test, pay.default.svc.cluster.local, "*.pattern.test"], http: [{route: [{destination: {host: addresses.evil.test, port: {number: 9301}}}]}], tcp: [{route: [{destination: {host: addresses.evil.test, port: {number: 9302}}}]}]}}
---
{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: rules, namespace: team-b, creationTimestamp: "2020-01-01T00:00:00Z"}, spec: {host: named.own.test, exportTo: ["*"], trafficPolicy: {tls: {mode: SIMPLE}, connectionPool: {tcp: {maxConnections: 1, connectTimeout: 1ms}, http: {http1MaxPendingRequests: 1, maxRequestsPerConnection: 1}}}}}
---
{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: rules-all, namespace: team-b, creationTimestamp: "2020-01-01T00:00:00Z"}, spec: {host: "*.test", exportTo: ["*"], trafficPolicy: {tls: {mode: SIMPLE}}}}
---
{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: rules-service, namespace: team-b, creationTimestamp: "2020-01-01T00:00:00Z"}, spec: {host: pay.default.svc.cluster.local, exportTo: ["*"], trafficPolicy: {tls: {mode: SIMPLE}}}}
---
{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: default, namespace: team-b}, spec: {outboundTrafficPolicy: {mode: REGISTRY_ONLY}, egress: [{hosts: ["./*"]}]}}
---
{apiVersion: egress.sallyport.io/v1alpha1, kind: EgressPolicy, metadata: {name: deny, namespace: team-b}, spec: {rules: [{hosts: ["*"], action: Deny}]}}
---
{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: deny, namespace: team-b}, spec: {action: DENY, rules: [{}]}}
---
{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {name: strict, namespace: team-b}, spec: {mtls: {mode: STRICT}}}
---
{apiVersion: v1, kind: Service, metadata: {name: pay, namespace: team-b, creationTimestamp: "2020-01-01T00:00:00Z"}, spec: {clusterIP: 10.96.0.97, externalIPs: [203.0.113.97, 203.0.113.96], selector: {app: pay}, ports: [{name: http, port: 9301}, {name: tcp, port: 9302}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: pay-1, namespace: team-b, labels: {kubernetes.io/service-name: pay}}, addressType: IPv4, ports: [{name: http, port: 9301}, {name: tcp, port: 9302}], endpoints: [{addresses: [203.0.113.98]}]}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: marker, namespace: team-b}, spec: {hosts: [marker.evil.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 9301, name: http, protocol: HTTP}]}}
`

// TestNeighboursTakeNothing: connections and requests of a namespace go where they went, whatever a neighbour writes about the same names, labels and addresses.
func TestNeighboursTakeNothing(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	for addr, name := range map[netip.Addr]string{ownServer: "own", evilServer: "evil", freeServer: "free"} {
		if _, err := s.World.Outside.Run(ctx, 0, "ip", "addr", "add", addr.String()+"/24", "dev", "eth0"); err != nil {
			t.Fatal(err)
		}
		servePages(t, s.World.Outside, netip.AddrPortFrom(addr, neighboursHTTP), func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, name) })
		l, err := s.World.Outside.Listen(netip.AddrPortFrom(addr, neighboursTCP).String())
		if err != nil {
			t.Fatal(err)
		}
		acceptAll(t, l, func(c net.Conn) {
			_, _ = bufio.NewReader(c).ReadString('\n')
			_, _ = fmt.Fprintln(c, name)
			_ = c.Close()
		})
	}
	for _, host := range []string{"named.own.test", "x.pattern.test", "y.pattern.test"} {
		s.Outside.Set(host, time.Minute, ownServer)
	}
	for _, host := range []string{"marker.evil.test", "resolved.evil.test"} {
		s.Outside.Set(host, time.Minute, evilServer)
	}
	write := func(name, objects, last string) {
		if err := s.Config.Write(name, objects); err != nil {
			t.Fatal(err)
		}
		if _, err := appOf(s).answered(ctx, last); err != nil {
			t.Fatal(err)
		}
	}
	write("own.yaml", victimObjects, "labelled.own.test")
	want := map[string]string{
		"http://named.own.test": "own", "tcp://named.own.test": "own", "http://labelled.own.test": "own", "tcp://labelled.own.test": "own", "http://x.pattern.test": "own", "http://y.pattern.test": "own",
		"tcp://203.0.113.97": "own", "tcp://203.0.113.96": "free", "http://203.0.113.96": "free", "http://10.96.0.97": "own", "tcp://10.96.0.97": "own",
	}
	all := func() map[string]string {
		got := map[string]string{}
		for url := range want {
			got[url] = saysWho(ctx, appOf(s), url)
		}
		return got
	}
	var before map[string]string
	if err := world.Within(ctx, time.Minute, func() error {
		if before = all(); !maps.Equal(before, want) {
			return fmt.Errorf("%v", before)
		}
		return nil
	}); err != nil {
		t.Fatalf("without the neighbour: %v", err)
	}
	write("evil.yaml", evilObjects, "marker.evil.test")
	for range 5 { // what would be shared with others would be so sometimes
		got := all()
		for _, url := range slices.Sorted(maps.Keys(want)) {
			if got[url] != want[url] {
				t.Errorf("%s leads to %q, and to %q without the neighbour", url, got[url], want[url])
			}
		}
	}
}

// saysWho asks a server which it is.
func saysWho(ctx context.Context, c caller, url string) string {
	scheme, host, _ := strings.Cut(url, "://")
	if scheme == "http" {
		status, text, err := c.get(ctx, time.Minute, host, neighboursHTTP, "/", http.Header{})
		if err != nil {
			return err.Error()
		}
		return map[bool]string{true: text, false: fmt.Sprint(status, " ", text)}[status == http.StatusOK]
	}
	addr, err := c.resolve(ctx, host)
	if err != nil {
		return err.Error()
	}
	conn, err := c.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, neighboursTCP).String())
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = fmt.Fprintln(conn, "who")
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return line[:len(line)-1]
}
