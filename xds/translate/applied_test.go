package translate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/fields"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/translate"
)

// around is what all pairs have beside them: hosts that leave straight and by the gateway, pods, and a folder of files.
const (
	around = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: straight, annotations: {egress.sallyport.io/gateway: direct}}
spec: {hosts: [d.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 81, name: more, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: workloads}
spec: {hosts: [w.com], location: MESH_INTERNAL, resolution: STATIC, workloadSelector: {labels: {app: w}}, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: other, namespace: other, annotations: {egress.sallyport.io/gateway: direct}}
spec: {hosts: [o.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec: {selector: {istio: egress}, ports: [{name: tls, port: 443}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec: {containers: [{name: c, image: i}]}
status: {podIP: 10.0.0.7, phase: Running}
`
	folders = "sallyport: {certificateFolders: {sidecar: /s}}"
)

// pairs are, for each field that is called applied, two specs that differ in it, as "one ⇒ other".
var pairs = map[string]string{
	"ServiceEntry hosts":                   `{hosts: [a.com], ports: [{number: 80, name: h, protocol: HTTP}], resolution: DNS} ⇒ {hosts: [b.com], ports: [{number: 80, name: h, protocol: HTTP}], resolution: DNS}`,
	"ServiceEntry addresses":               `{hosts: [a.com], ports: [{number: 80, name: h, protocol: TCP}], resolution: DNS, addresses: [192.0.2.1]} ⇒ {hosts: [a.com], ports: [{number: 80, name: h, protocol: TCP}], resolution: DNS, addresses: [192.0.2.2]}`,
	"ServiceEntry ports.number":            `{hosts: [a.com], ports: [{number: 80, name: h, protocol: HTTP}], resolution: DNS} ⇒ {hosts: [a.com], ports: [{number: 88, name: h, protocol: HTTP}], resolution: DNS}`,
	"ServiceEntry ports.protocol":          `{hosts: [a.com], ports: [{number: 80, name: h, protocol: HTTP}], resolution: DNS} ⇒ {hosts: [a.com], ports: [{number: 80, name: h, protocol: TLS}], resolution: DNS}`,
	"ServiceEntry ports.name":              `{hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}, {number: 81, name: i, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1, ports: {h: 8080}}]} ⇒ {hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: i, protocol: HTTP}, {number: 81, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1, ports: {h: 8080}}]}`,
	"ServiceEntry ports.targetPort":        `{hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: DNS} ⇒ {hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP, targetPort: 8080}], resolution: DNS}`,
	"ServiceEntry location":                `{hosts: [a.com], ports: [{number: 80, name: h, protocol: HTTP}], resolution: DNS} ⇒ {hosts: [a.com], ports: [{number: 80, name: h, protocol: HTTP}], resolution: DNS, location: MESH_INTERNAL}`,
	"ServiceEntry resolution":              `{hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: DNS} ⇒ {hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: NONE}`,
	"ServiceEntry workloadSelector.labels": `{hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, workloadSelector: {labels: {app: p}}} ⇒ {hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, workloadSelector: {labels: {app: q}}}`,
	"ServiceEntry exportTo":                `{hosts: [a.com], ports: [{number: 80, name: h, protocol: HTTP}], resolution: DNS, exportTo: [.]} ⇒ {hosts: [a.com], ports: [{number: 80, name: h, protocol: HTTP}], resolution: DNS, exportTo: [else]}`,
	"ServiceEntry subjectAltNames":         `{hosts: [a.com], ports: [{number: 80, name: h, protocol: HTTP, targetPort: 443}], resolution: DNS} ⇒ {hosts: [a.com], ports: [{number: 80, name: h, protocol: HTTP, targetPort: 443}], resolution: DNS, subjectAltNames: [b.com]}`,
	"ServiceEntry endpoints.address":       `{hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1}]} ⇒ {hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.2}]}`,
	"ServiceEntry endpoints.ports":         `{hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1}]} ⇒ {hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1, ports: {h: 81}}]}`,
	"ServiceEntry endpoints.weight":        `{hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1, weight: 2}]} ⇒ {hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1, weight: 3}]}`,

	"DestinationRule host":                         `{host: d.com, trafficPolicy: {tls: {mode: SIMPLE}}} ⇒ {host: e.com, trafficPolicy: {tls: {mode: SIMPLE}}}`,
	"DestinationRule exportTo":                     `{host: o.com, exportTo: ['*'], trafficPolicy: {tls: {mode: SIMPLE}}} ⇒ {host: o.com, exportTo: [else], trafficPolicy: {tls: {mode: SIMPLE}}}`,
	"DestinationRule workloadSelector.matchLabels": `{host: d.com, workloadSelector: {matchLabels: {app: x}}, trafficPolicy: {tls: {mode: SIMPLE}}} ⇒ {host: d.com, workloadSelector: {matchLabels: {app: z}}, trafficPolicy: {tls: {mode: SIMPLE}}}`,

	"WorkloadEntry labels":  `{address: 192.0.2.1, labels: {app: w}} ⇒ {address: 192.0.2.1, labels: {app: v}}`,
	"WorkloadEntry address": `{address: 192.0.2.1, labels: {app: w}} ⇒ {address: 192.0.2.2, labels: {app: w}}`,
	"WorkloadEntry ports":   `{address: 192.0.2.1, labels: {app: w}} ⇒ {address: 192.0.2.1, labels: {app: w}, ports: {http: 81}}`,
	"WorkloadEntry weight":  `{address: 192.0.2.1, labels: {app: w}, weight: 2} ⇒ {address: 192.0.2.1, labels: {app: w}, weight: 3}`,

	"Sidecar workloadSelector.labels":    `{workloadSelector: {labels: {app: x}}, egress: [{hosts: ['~/*']}]} ⇒ {workloadSelector: {labels: {app: z}}, egress: [{hosts: ['~/*']}]}`,
	"Sidecar egress.hosts":               `{egress: [{hosts: ['./*']}]} ⇒ {egress: [{hosts: ['other/*']}]}`,
	"Sidecar egress.port.number":         `{egress: [{port: {number: 80}, hosts: ['./*']}]} ⇒ {egress: [{port: {number: 81}, hosts: ['./*']}]}`,
	"Sidecar outboundTrafficPolicy.mode": `{outboundTrafficPolicy: {mode: ALLOW_ANY}} ⇒ {outboundTrafficPolicy: {mode: REGISTRY_ONLY}}`,
}

// policies are pairs of what a policy for all ports, and one for a port, may say.
var policies = map[string]string{
	"tls.mode":                                                `{tls: {mode: SIMPLE}} ⇒ {tls: {mode: DISABLE}}`,
	"tls.clientCertificate":                                   `{tls: {mode: MUTUAL, clientCertificate: /s/a, privateKey: /s/k}} ⇒ {tls: {mode: MUTUAL, clientCertificate: /s/b, privateKey: /s/k}}`,
	"tls.privateKey":                                          `{tls: {mode: MUTUAL, clientCertificate: /s/a, privateKey: /s/k}} ⇒ {tls: {mode: MUTUAL, clientCertificate: /s/a, privateKey: /s/l}}`,
	"tls.caCertificates":                                      `{tls: {mode: SIMPLE, caCertificates: /s/a}} ⇒ {tls: {mode: SIMPLE, caCertificates: /s/b}}`,
	"tls.caCrl":                                               `{tls: {mode: SIMPLE, caCertificates: /s/a, caCrl: /s/b}} ⇒ {tls: {mode: SIMPLE, caCertificates: /s/a, caCrl: /s/c}}`,
	"tls.credentialName":                                      `{tls: {mode: SIMPLE, credentialName: a}} ⇒ {tls: {mode: SIMPLE, credentialName: b}}`,
	"tls.subjectAltNames":                                     `{tls: {mode: SIMPLE, subjectAltNames: [a.com]}} ⇒ {tls: {mode: SIMPLE, subjectAltNames: [b.com]}}`,
	"tls.sni":                                                 `{tls: {mode: SIMPLE, sni: a.com}} ⇒ {tls: {mode: SIMPLE, sni: b.com}}`,
	"tls.insecureSkipVerify":                                  `{tls: {mode: SIMPLE, insecureSkipVerify: true}} ⇒ {tls: {mode: SIMPLE}}`,
	"connectionPool.tcp.connectTimeout":                       `{connectionPool: {tcp: {connectTimeout: 3s}}} ⇒ {connectionPool: {tcp: {connectTimeout: 4s}}}`,
	"loadBalancer.simple":                                     `{loadBalancer: {simple: RANDOM}} ⇒ {loadBalancer: {simple: LEAST_REQUEST}}`,
	"loadBalancer.consistentHash.httpHeaderName":              `{loadBalancer: {consistentHash: {httpHeaderName: a}}} ⇒ {loadBalancer: {consistentHash: {httpHeaderName: b}}}`,
	"loadBalancer.consistentHash.httpCookie.name":             `{loadBalancer: {consistentHash: {httpCookie: {name: a}}}} ⇒ {loadBalancer: {consistentHash: {httpCookie: {name: b}}}}`,
	"loadBalancer.consistentHash.httpCookie.path":             `{loadBalancer: {consistentHash: {httpCookie: {name: a, path: /a}}}} ⇒ {loadBalancer: {consistentHash: {httpCookie: {name: a, path: /b}}}}`,
	"loadBalancer.consistentHash.httpCookie.ttl":              `{loadBalancer: {consistentHash: {httpCookie: {name: a, ttl: 1s}}}} ⇒ {loadBalancer: {consistentHash: {httpCookie: {name: a, ttl: 2s}}}}`,
	"loadBalancer.consistentHash.httpCookie.attributes.name":  `{loadBalancer: {consistentHash: {httpCookie: {name: a, attributes: [{name: a}]}}}} ⇒ {loadBalancer: {consistentHash: {httpCookie: {name: a, attributes: [{name: b}]}}}}`,
	"loadBalancer.consistentHash.httpCookie.attributes.value": `{loadBalancer: {consistentHash: {httpCookie: {name: a, attributes: [{name: a, value: a}]}}}} ⇒ {loadBalancer: {consistentHash: {httpCookie: {name: a, attributes: [{name: a, value: b}]}}}}`,
	"loadBalancer.consistentHash.useSourceIp":                 `{loadBalancer: {consistentHash: {useSourceIp: true}}} ⇒ {loadBalancer: {consistentHash: {httpQueryParameterName: a}}}`,
	"loadBalancer.consistentHash.httpQueryParameterName":      `{loadBalancer: {consistentHash: {httpQueryParameterName: a}}} ⇒ {loadBalancer: {consistentHash: {httpQueryParameterName: b}}}`,
	"loadBalancer.consistentHash.minimumRingSize":             `{loadBalancer: {consistentHash: {useSourceIp: true, minimumRingSize: 5}}} ⇒ {loadBalancer: {consistentHash: {useSourceIp: true, minimumRingSize: 6}}}`,
	"loadBalancer.consistentHash.ringHash.minimumRingSize":    `{loadBalancer: {consistentHash: {useSourceIp: true, ringHash: {minimumRingSize: 5}}}} ⇒ {loadBalancer: {consistentHash: {useSourceIp: true, ringHash: {minimumRingSize: 6}}}}`,
	"loadBalancer.consistentHash.maglev.tableSize":            `{loadBalancer: {consistentHash: {useSourceIp: true, maglev: {tableSize: 5}}}} ⇒ {loadBalancer: {consistentHash: {useSourceIp: true, maglev: {tableSize: 7}}}}`,
	"loadBalancer.warmupDurationSecs":                         `{loadBalancer: {warmupDurationSecs: 5s}} ⇒ {loadBalancer: {warmupDurationSecs: 6s}}`,
	"loadBalancer.warmup.duration":                            `{loadBalancer: {warmup: {duration: 5s}}} ⇒ {loadBalancer: {warmup: {duration: 6s}}}`,
	"loadBalancer.warmup.minimumPercent":                      `{loadBalancer: {warmup: {duration: 5s, minimumPercent: 5}}} ⇒ {loadBalancer: {warmup: {duration: 5s, minimumPercent: 6}}}`,
	"loadBalancer.warmup.aggression":                          `{loadBalancer: {warmup: {duration: 5s, aggression: 1}}} ⇒ {loadBalancer: {warmup: {duration: 5s, aggression: 2}}}`,
	"connectionPool.tcp.maxConnections":                       `{connectionPool: {tcp: {maxConnections: 5}}} ⇒ {connectionPool: {tcp: {maxConnections: 6}}}`,
	"connectionPool.tcp.tcpKeepalive.probes":                  `{connectionPool: {tcp: {tcpKeepalive: {probes: 3}}}} ⇒ {connectionPool: {tcp: {tcpKeepalive: {probes: 4}}}}`,
	"connectionPool.tcp.tcpKeepalive.time":                    `{connectionPool: {tcp: {tcpKeepalive: {time: 3s}}}} ⇒ {connectionPool: {tcp: {tcpKeepalive: {time: 4s}}}}`,
	"connectionPool.tcp.tcpKeepalive.interval":                `{connectionPool: {tcp: {tcpKeepalive: {interval: 3s}}}} ⇒ {connectionPool: {tcp: {tcpKeepalive: {interval: 4s}}}}`,
	"connectionPool.http.http1MaxPendingRequests":             `{connectionPool: {http: {http1MaxPendingRequests: 5}}} ⇒ {connectionPool: {http: {http1MaxPendingRequests: 6}}}`,
	"connectionPool.http.http2MaxRequests":                    `{connectionPool: {http: {http2MaxRequests: 5}}} ⇒ {connectionPool: {http: {http2MaxRequests: 6}}}`,
	"connectionPool.http.maxRequestsPerConnection":            `{connectionPool: {http: {maxRequestsPerConnection: 5}}} ⇒ {connectionPool: {http: {maxRequestsPerConnection: 6}}}`,
	"connectionPool.http.maxRetries":                          `{connectionPool: {http: {maxRetries: 5}}} ⇒ {connectionPool: {http: {maxRetries: 6}}}`,
	"connectionPool.http.idleTimeout":                         `{connectionPool: {http: {idleTimeout: 5s}}} ⇒ {connectionPool: {http: {idleTimeout: 6s}}}`,
	"connectionPool.http.h2UpgradePolicy":                     `{connectionPool: {http: {h2UpgradePolicy: UPGRADE}}} ⇒ {connectionPool: {http: {h2UpgradePolicy: DO_NOT_UPGRADE}}}`,
	"connectionPool.http.maxConcurrentStreams":                `{connectionPool: {http: {h2UpgradePolicy: UPGRADE, maxConcurrentStreams: 5}}} ⇒ {connectionPool: {http: {h2UpgradePolicy: UPGRADE, maxConcurrentStreams: 6}}}`,
	"connectionPool.http.http2KeepAlive.interval":             `{connectionPool: {http: {h2UpgradePolicy: UPGRADE, http2KeepAlive: {interval: 5s, timeout: 1s}}}} ⇒ {connectionPool: {http: {h2UpgradePolicy: UPGRADE, http2KeepAlive: {interval: 6s, timeout: 1s}}}}`,
	"connectionPool.http.http2KeepAlive.timeout":              `{connectionPool: {http: {h2UpgradePolicy: UPGRADE, http2KeepAlive: {interval: 5s, timeout: 1s}}}} ⇒ {connectionPool: {http: {h2UpgradePolicy: UPGRADE, http2KeepAlive: {interval: 5s, timeout: 2s}}}}`,
	"outlierDetection.splitExternalLocalOriginErrors":         `{outlierDetection: {splitExternalLocalOriginErrors: true}} ⇒ {outlierDetection: {splitExternalLocalOriginErrors: false}}`,
	"outlierDetection.consecutiveLocalOriginFailures":         `{outlierDetection: {splitExternalLocalOriginErrors: true, consecutiveLocalOriginFailures: 5}} ⇒ {outlierDetection: {splitExternalLocalOriginErrors: true, consecutiveLocalOriginFailures: 6}}`,
	"outlierDetection.consecutiveGatewayErrors":               `{outlierDetection: {consecutiveGatewayErrors: 5}} ⇒ {outlierDetection: {consecutiveGatewayErrors: 6}}`,
	"outlierDetection.consecutive5xxErrors":                   `{outlierDetection: {consecutive5xxErrors: 5}} ⇒ {outlierDetection: {consecutive5xxErrors: 6}}`,
	"outlierDetection.maxEjectionPercent":                     `{outlierDetection: {maxEjectionPercent: 5}} ⇒ {outlierDetection: {maxEjectionPercent: 6}}`,
	"outlierDetection.minHealthPercent":                       `{outlierDetection: {minHealthPercent: 5}} ⇒ {outlierDetection: {minHealthPercent: 6}}`,
	"outlierDetection.interval":                               `{outlierDetection: {interval: 5s}} ⇒ {outlierDetection: {interval: 6s}}`,
	"outlierDetection.baseEjectionTime":                       `{outlierDetection: {baseEjectionTime: 5s}} ⇒ {outlierDetection: {baseEjectionTime: 6s}}`,
	"portLevelSettings.port.number":                           `{portLevelSettings: [{port: {number: 80}, tls: {mode: SIMPLE}}]} ⇒ {portLevelSettings: [{port: {number: 81}, tls: {mode: SIMPLE}}]}`,
}

// pairOf finds the two specs for a field of a kind.
func pairOf(kind, path string) (one, other string, ok bool) {
	pair, ok := pairs[kind+" "+path]
	if rest, policy := strings.CutPrefix(path, "trafficPolicy."); !ok && policy && kind == "DestinationRule" {
		form := "{host: d.com, trafficPolicy: %s}"
		if policies[rest] == "" {
			rest = strings.TrimPrefix(rest, "portLevelSettings.")
			form = "{host: d.com, trafficPolicy: {portLevelSettings: [{port: {number: 80}, %s}]}}"
		}
		one, other, ok = strings.Cut(policies[rest], " ⇒ ")
		if strings.Contains(form, "portLevel") {
			one, other = strings.TrimSuffix(strings.TrimPrefix(one, "{"), "}"), strings.TrimSuffix(strings.TrimPrefix(other, "{"), "}")
		}
		return fmt.Sprintf(form, one), fmt.Sprintf(form, other), ok
	}
	one, other, _ = strings.Cut(pair, " ⇒ ")
	return one, other, ok
}

// TestAppliedFieldsChangeSomething: what a table of config/fields calls applied makes a difference to what some
// proxy is given.
func TestAppliedFieldsChangeSomething(t *testing.T) {
	settings, err := mesh.Parse([]byte(folders))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ServiceEntry", "WorkloadEntry", "DestinationRule", "Sidecar"} {
		for _, f := range fields.Of(kind).Fields {
			if f.Fate != fields.Applied {
				continue
			}
			one, other, ok := pairOf(kind, f.Path)
			if !ok {
				t.Errorf("%s %s: no pair shows that it is applied", kind, f.Path)
				continue
			}
			ns := "default"
			if f.Path == "exportTo" && kind == "DestinationRule" {
				ns = "other"
			}
			if given(t, settings, kind, ns, one) == given(t, settings, kind, ns, other) {
				t.Errorf("%s %s: proxies are given the same for %s and for %s", kind, f.Path, one, other)
			}
		}
	}
}

// given is what a sidecar and the gateway get with an object of that spec.
func given(t *testing.T, settings mesh.Config, kind, ns, spec string) string {
	t.Helper()
	r := decode.File("a.yaml", []byte(around+"---\napiVersion: networking.istio.io/v1\nkind: "+kind+"\nmetadata: {name: x, namespace: "+ns+"}\nspec: "+spec+"\n"))
	for _, f := range r.Findings {
		t.Fatalf("%s: %s", spec, f)
	}
	var b strings.Builder
	for _, node := range []translate.Node{
		{ID: "sidecar~10.0.0.1~app.default~default.svc.cluster.local", Namespace: "default", Labels: map[string]string{"app": "x"}},
		{ID: "router~10.0.0.2~istio-egressgateway.istio-system~istio-system.svc.cluster.local", Namespace: "istio-system", Labels: map[string]string{"istio": "egress"}},
	} {
		b.WriteString(render(t, testCase{objects: r.Objects, mesh: settings, node: node}))
	}
	return b.String()
}
