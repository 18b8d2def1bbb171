package translate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/fields"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// around is what all pairs have beside them: hosts that leave straight and by the gateway, pods, and a folder of files.
const (
	around = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: straight, annotations: {egress.sallyport.io/gateway: direct}}
spec: {hosts: [d.com, e.com, m.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 81, name: more, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}, {number: 90, name: tcp, protocol: TCP}], endpoints: [{address: one.d.com, locality: r1/z1}, {address: two.d.com, locality: r2/z1}, {address: three.d.com, locality: r3/z1}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: away}
spec: {hosts: [g.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: subset}
spec: {hosts: [m.com], http: [{route: [{destination: {host: d.com, subset: s}}]}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: subsets}
spec: {host: m.com, subsets: [{name: a}, {name: b}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: near}
spec: {host: n.com, trafficPolicy: {outlierDetection: {consecutive5xxErrors: 5}}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: near-workloads}
spec: {host: k.com, trafficPolicy: {outlierDetection: {consecutive5xxErrors: 5}}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: away}
spec: {hosts: [g.com], gateways: [x], http: [{match: [{port: 80}], directResponse: {status: 403}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: leaf}
spec: {http: [{directResponse: {status: 403}}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: labelled}
spec: {hosts: [l.com], location: MESH_INTERNAL, resolution: STATIC, endpoints: [{address: 192.0.2.8, labels: {v: one}}, {address: 192.0.2.9, labels: {v: two}}], ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: near-workloads}
spec: {hosts: [k.com], location: MESH_INTERNAL, resolution: STATIC, workloadSelector: {labels: {app: w}}, ports: [{number: 80, name: http, protocol: HTTP}]}
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
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: labelled}
spec: {selector: {matchLabels: {app: w}}, rules: [{hosts: [a.com], action: Deny}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {team: shop}}
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
	folders = "sallyport: {certificateFolders: {sidecar: /s}, mutualTLS: true, network: n1, networks: {n2: {gateways: [{address: 192.0.2.200}]}}}"
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
	"ServiceEntry endpoints.locality":      `{hosts: [n.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1, locality: r1}]} ⇒ {hosts: [n.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1, locality: r2}]}`,
	"ServiceEntry endpoints.weight":        `{hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1, weight: 2}]} ⇒ {hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1, weight: 3}]}`,

	"ServiceEntry endpoints.serviceAccount": `{hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1, labels: {security.istio.io/tlsMode: istio}, serviceAccount: a}]} ⇒ {hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1, labels: {security.istio.io/tlsMode: istio}, serviceAccount: b}]}`,

	"ServiceEntry endpoints.network": `{hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1, labels: {security.istio.io/tlsMode: istio}}]} ⇒ {hosts: [a.com], location: MESH_INTERNAL, ports: [{number: 80, name: h, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1, labels: {security.istio.io/tlsMode: istio}, network: n2}]}`,
	"WorkloadEntry network":          `{address: 192.0.2.1, labels: {app: w}} ⇒ {address: 192.0.2.1, labels: {app: w}, network: n2}`,

	"PeerAuthentication selector.matchLabels": `{selector: {matchLabels: {app: x}}, mtls: {mode: STRICT}} ⇒ {selector: {matchLabels: {app: other}}, mtls: {mode: STRICT}}`,
	"PeerAuthentication mtls.mode":            `{mtls: {mode: STRICT}} ⇒ {mtls: {mode: DISABLE}}`,
	"PeerAuthentication portLevelMtls.mode":   `{selector: {matchLabels: {app: x}}, portLevelMtls: {"80": {mode: STRICT}}} ⇒ {selector: {matchLabels: {app: x}}, portLevelMtls: {"80": {mode: DISABLE}}}`,

	"Telemetry selector.matchLabels":     `{selector: {matchLabels: {app: x}}, accessLogging: [{disabled: true}]} ⇒ {selector: {matchLabels: {app: other}}, accessLogging: [{disabled: true}]}`,
	"Telemetry targetRefs.kind":          `{accessLogging: [{disabled: true}]} ⇒ {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: w}], accessLogging: [{disabled: true}]}`,
	"Telemetry accessLogging.match.mode": `{accessLogging: [{match: {mode: SERVER}, disabled: true}]} ⇒ {accessLogging: [{match: {mode: CLIENT}, disabled: true}]}`,
	"Telemetry accessLogging.disabled":   `{accessLogging: [{disabled: false}]} ⇒ {accessLogging: [{disabled: true}]}`,

	"DestinationRule host": `{host: d.com, trafficPolicy: {tls: {mode: SIMPLE}}} ⇒ {host: e.com, trafficPolicy: {tls: {mode: SIMPLE}}}`,
	"DestinationRule subsets.trafficPolicy.portLevelSettings.port.number": `{host: w.com, subsets: [{name: s, trafficPolicy: {portLevelSettings: [{port: {number: 80}, loadBalancer: {simple: RANDOM}}]}}]} ⇒ {host: w.com, subsets: [{name: s, trafficPolicy: {portLevelSettings: [{port: {number: 81}, loadBalancer: {simple: RANDOM}}]}}]}`,
	"DestinationRule subsets.name":                                        `{host: w.com, subsets: [{name: a}]} ⇒ {host: w.com, subsets: [{name: b}]}`,
	"DestinationRule subsets.labels":                                      `{host: l.com, subsets: [{name: a, labels: {v: one}}]} ⇒ {host: l.com, subsets: [{name: a, labels: {v: two}}]}`,
	"DestinationRule exportTo":                                            `{host: o.com, exportTo: ['*'], trafficPolicy: {tls: {mode: SIMPLE}}} ⇒ {host: o.com, exportTo: [else], trafficPolicy: {tls: {mode: SIMPLE}}}`,
	"DestinationRule workloadSelector.matchLabels":                        `{host: d.com, workloadSelector: {matchLabels: {app: x}}, trafficPolicy: {tls: {mode: SIMPLE}}} ⇒ {host: d.com, workloadSelector: {matchLabels: {app: z}}, trafficPolicy: {tls: {mode: SIMPLE}}}`,

	"VirtualService hosts":    `{hosts: [d.com], http: [{directResponse: {status: 403}}]} ⇒ {hosts: [w.com], http: [{directResponse: {status: 403}}]}`,
	"VirtualService gateways": `{hosts: [d.com], http: [{directResponse: {status: 403}}]} ⇒ {hosts: [d.com], gateways: [a], http: [{directResponse: {status: 403}}]}`,
	"VirtualService exportTo": `{hosts: [o.com], exportTo: ['*'], http: [{directResponse: {status: 403}}]} ⇒ {hosts: [o.com], exportTo: [else], http: [{directResponse: {status: 403}}]}`,

	"Gateway selector":                          `{selector: {istio: egress}, servers: [{port: {number: 80, name: h, protocol: HTTP}, hosts: ['*']}]} ⇒ {selector: {istio: other}, servers: [{port: {number: 80, name: h, protocol: HTTP}, hosts: ['*']}]}`,
	"Gateway servers.port.number":               `{selector: {istio: egress}, servers: [{port: {number: 80, name: h, protocol: HTTP}, hosts: ['*']}]} ⇒ {selector: {istio: egress}, servers: [{port: {number: 81, name: h, protocol: HTTP}, hosts: ['*']}]}`,
	"Gateway servers.port.protocol":             `{selector: {istio: egress}, servers: [{port: {number: 80, name: h, protocol: HTTP}, hosts: ['*']}]} ⇒ {selector: {istio: egress}, servers: [{port: {number: 80, name: h, protocol: TCP}, hosts: ['*']}]}`,
	"Gateway servers.hosts":                     `{selector: {istio: egress}, servers: [{port: {number: 80, name: h, protocol: HTTP}, hosts: ['*']}]} ⇒ {selector: {istio: egress}, servers: [{port: {number: 80, name: h, protocol: HTTP}, hosts: [other.com]}]}`,
	"Gateway servers.tls.httpsRedirect":         `{selector: {istio: in}, servers: [{port: {number: 80, name: h, protocol: HTTP}, hosts: [a.com]}]} ⇒ {selector: {istio: in}, servers: [{port: {number: 80, name: h, protocol: HTTP}, hosts: [a.com], tls: {httpsRedirect: true}}]}`,
	"Gateway servers.tls.credentialName":        `{selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: cert}}]} ⇒ {selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: cert2}}]}`,
	"Gateway servers.tls.credentialNames":       `{selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialNames: [cert]}}]} ⇒ {selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialNames: [cert, cert2]}}]}`,
	"Gateway servers.tls.caCertCredentialName":  `{selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: MUTUAL, credentialName: cert}}]} ⇒ {selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: MUTUAL, credentialName: cert, caCertCredentialName: cert2}}]}`,
	"Gateway servers.tls.subjectAltNames":       `{selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: MUTUAL, credentialName: cert}}]} ⇒ {selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: MUTUAL, credentialName: cert, subjectAltNames: [x]}}]}`,
	"Gateway servers.tls.verifyCertificateSpki": `{selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: MUTUAL, credentialName: cert}}]} ⇒ {selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: MUTUAL, credentialName: cert, verifyCertificateSpki: ["NvqYIYSbgK2vCJpQhObf77vv+bQWtc5ek5RIOwPiC9A="]}}]}`,
	"Gateway servers.tls.verifyCertificateHash": `{selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: MUTUAL, credentialName: cert}}]} ⇒ {selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: MUTUAL, credentialName: cert, verifyCertificateHash: [df6ff72fe9116521268f6f2dd4966f51df479883fe7037b39f75916ac3049d1a]}}]}`,
	"Gateway servers.tls.minProtocolVersion":    `{selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: cert}}]} ⇒ {selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: cert, minProtocolVersion: TLSV1_3}}]}`,
	"Gateway servers.tls.maxProtocolVersion":    `{selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: cert}}]} ⇒ {selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: cert, maxProtocolVersion: TLSV1_2}}]}`,
	"Gateway servers.tls.cipherSuites":          `{selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: cert}}]} ⇒ {selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: cert, cipherSuites: [ECDHE-RSA-AES256-GCM-SHA384]}}]}`,
	"Gateway servers.tls.mode":                  `{selector: {istio: egress}, servers: [{port: {number: 80, name: h, protocol: HTTPS}, hosts: ['*'], tls: {mode: ISTIO_MUTUAL}}]} ⇒ {selector: {istio: egress}, servers: [{port: {number: 80, name: h, protocol: HTTPS}, hosts: ['*'], tls: {mode: PASSTHROUGH}}]}`,

	"WorkloadEntry serviceAccount": `{address: 192.0.2.1, labels: {app: w}, serviceAccount: a} ⇒ {address: 192.0.2.1, labels: {app: w}, serviceAccount: b}`,

	"EgressPolicy selector.matchLabels":   `{selector: {matchLabels: {app: p}}, default: Deny} ⇒ {selector: {matchLabels: {app: q}}, default: Deny}`,
	"EgressPolicy serviceAccounts":        `{serviceAccounts: [a], default: Deny} ⇒ {serviceAccounts: [b], default: Deny}`,
	"EgressPolicy namespaces.names":       `{namespaces: {names: [default]}, default: Deny} ⇒ {namespaces: {names: [other]}, default: Deny}`,
	"EgressPolicy namespaces.matchLabels": `{namespaces: {matchLabels: {team: shop}}, default: Deny} ⇒ {namespaces: {matchLabels: {team: cart}}, default: Deny}`,
	"EgressPolicy mode":                   `{mode: Observe, default: Deny} ⇒ {mode: Enforce, default: Deny}`,
	"EgressPolicy default":                `{default: Deny} ⇒ {default: Allow}`,
	"EgressPolicy rules.name":             `{rules: [{name: a, action: Deny}]} ⇒ {rules: [{name: b, action: Deny}]}`,
	"EgressPolicy rules.hosts":            `{rules: [{hosts: [a.com], action: Deny}]} ⇒ {rules: [{hosts: [b.com], action: Deny}]}`,
	"EgressPolicy rules.ports":            `{rules: [{ports: [80], action: Deny}]} ⇒ {rules: [{ports: [81], action: Deny}]}`,
	"EgressPolicy rules.protocols":        `{rules: [{protocols: [TLS], action: Deny}]} ⇒ {rules: [{protocols: [TCP], action: Deny}]}`,
	"EgressPolicy rules.methods":          `{rules: [{methods: [GET], action: Deny}]} ⇒ {rules: [{methods: [PUT], action: Deny}]}`,
	"EgressPolicy rules.paths":            `{rules: [{paths: [/a], action: Deny}]} ⇒ {rules: [{paths: [/b], action: Deny}]}`,
	"EgressPolicy rules.headers.name":     `{rules: [{headers: [{name: x-a, value: a}], action: Deny}]} ⇒ {rules: [{headers: [{name: x-b, value: a}], action: Deny}]}`,
	"EgressPolicy rules.headers.value":    `{rules: [{headers: [{name: x-a, value: a}], action: Deny}]} ⇒ {rules: [{headers: [{name: x-a, value: b}], action: Deny}]}`,
	"EgressPolicy rules.action":           `{rules: [{hosts: [a.com], action: Deny}], default: Deny} ⇒ {rules: [{hosts: [a.com], action: Allow}], default: Deny}`,
	"EgressPolicy rules.expires":          `{rules: [{action: Deny, expires: "2036-01-01T00:00:00Z"}]} ⇒ {rules: [{action: Deny, expires: "2037-01-01T00:00:00Z"}]}`,
	"EgressPolicy rules.notBefore":        `{rules: [{action: Deny, notBefore: "2036-01-01T00:00:00Z"}]} ⇒ {rules: [{action: Deny, notBefore: "2037-01-01T00:00:00Z"}]}`,
	"EgressPolicy rules.reason":           `{rules: [{action: Deny, reason: a}]} ⇒ {rules: [{action: Deny, reason: b}]}`,
	"EgressPolicy rules.owner":            `{rules: [{action: Deny, owner: a}]} ⇒ {rules: [{action: Deny, owner: b}]}`,
	"EgressPolicy rules.final":            `{rules: [{action: Allow, final: true}]} ⇒ {rules: [{action: Allow}]}`,
	"EgressPolicy rules.unregistered":     `{rules: [{action: Allow, hosts: [a.com], unregistered: true}]} ⇒ {rules: [{action: Allow, hosts: [a.com]}]}`,

	"AuthorizationPolicy selector.matchLabels":                 `{selector: {matchLabels: {istio: egress}}} ⇒ {selector: {matchLabels: {istio: other}}}`,
	"AuthorizationPolicy provider.name":                        `{selector: {matchLabels: {istio: egress}}, action: CUSTOM, provider: {name: a}, rules: [{}]} ⇒ {selector: {matchLabels: {istio: egress}}, action: CUSTOM, provider: {name: b}, rules: [{}]}`,
	"AuthorizationPolicy targetRef.kind":                       `{targetRef: {kind: Service, name: istio-egressgateway}} ⇒ {targetRef: {kind: Gateway, name: istio-egressgateway}}`,
	"AuthorizationPolicy targetRef.name":                       `{targetRef: {kind: Service, name: istio-egressgateway}} ⇒ {targetRef: {kind: Service, name: other}}`,
	"AuthorizationPolicy targetRefs.kind":                      `{targetRefs: [{kind: Service, name: istio-egressgateway}]} ⇒ {targetRefs: [{kind: Gateway, name: istio-egressgateway}]}`,
	"AuthorizationPolicy targetRefs.name":                      `{targetRefs: [{kind: Service, name: istio-egressgateway}]} ⇒ {targetRefs: [{kind: Service, name: other}]}`,
	"AuthorizationPolicy action":                               `{selector: {matchLabels: {istio: egress}}, action: ALLOW} ⇒ {selector: {matchLabels: {istio: egress}}, action: DENY}`,
	"AuthorizationPolicy rules.from.source.principals":         `{selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {principals: [a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {principals: [b]}}]}]}`,
	"AuthorizationPolicy rules.from.source.notPrincipals":      `{selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {notPrincipals: [a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {notPrincipals: [b]}}]}]}`,
	"AuthorizationPolicy rules.from.source.namespaces":         `{selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {namespaces: [a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {namespaces: [b]}}]}]}`,
	"AuthorizationPolicy rules.from.source.notNamespaces":      `{selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {notNamespaces: [a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {notNamespaces: [b]}}]}]}`,
	"AuthorizationPolicy rules.from.source.serviceAccounts":    `{selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {serviceAccounts: [a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {serviceAccounts: [b]}}]}]}`,
	"AuthorizationPolicy rules.from.source.notServiceAccounts": `{selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {notServiceAccounts: [a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {notServiceAccounts: [b]}}]}]}`,
	"AuthorizationPolicy rules.from.source.trustDomains":       `{selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {trustDomains: [a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {trustDomains: [b]}}]}]}`,
	"AuthorizationPolicy rules.from.source.notTrustDomains":    `{selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {notTrustDomains: [a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {notTrustDomains: [b]}}]}]}`,
	"AuthorizationPolicy rules.from.source.ipBlocks":           `{selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {ipBlocks: [192.0.2.1]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {ipBlocks: [192.0.2.0/24]}}]}]}`,
	"AuthorizationPolicy rules.from.source.notIpBlocks":        `{selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {notIpBlocks: [192.0.2.1]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {notIpBlocks: [192.0.2.0/24]}}]}]}`,
	"AuthorizationPolicy rules.from.source.remoteIpBlocks":     `{selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {remoteIpBlocks: [192.0.2.1]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {remoteIpBlocks: [192.0.2.0/24]}}]}]}`,
	"AuthorizationPolicy rules.from.source.notRemoteIpBlocks":  `{selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {notRemoteIpBlocks: [192.0.2.1]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {notRemoteIpBlocks: [192.0.2.0/24]}}]}]}`,
	"AuthorizationPolicy rules.to.operation.hosts":             `{selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {hosts: [a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {hosts: [b]}}]}]}`,
	"AuthorizationPolicy rules.to.operation.notHosts":          `{selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {notHosts: [a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {notHosts: [b]}}]}]}`,
	"AuthorizationPolicy rules.to.operation.methods":           `{selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {methods: [a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {methods: [b]}}]}]}`,
	"AuthorizationPolicy rules.to.operation.notMethods":        `{selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {notMethods: [a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {notMethods: [b]}}]}]}`,
	"AuthorizationPolicy rules.to.operation.ports":             `{selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {ports: ['80']}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {ports: ['81']}}]}]}`,
	"AuthorizationPolicy rules.to.operation.notPorts":          `{selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {notPorts: ['80']}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {notPorts: ['81']}}]}]}`,
	"AuthorizationPolicy rules.to.operation.paths":             `{selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {paths: [/a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {paths: [/b]}}]}]}`,
	"AuthorizationPolicy rules.to.operation.notPaths":          `{selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {notPaths: [/a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{to: [{operation: {notPaths: [/b]}}]}]}`,
	"AuthorizationPolicy rules.when.key":                       `{selector: {matchLabels: {istio: egress}}, rules: [{when: [{key: 'request.headers[a]', values: [x]}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{when: [{key: 'request.headers[b]', values: [x]}]}]}`,
	"AuthorizationPolicy rules.when.values":                    `{selector: {matchLabels: {istio: egress}}, rules: [{when: [{key: source.principal, values: [x]}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{when: [{key: source.principal, values: [z]}]}]}`,
	"AuthorizationPolicy rules.when.notValues":                 `{selector: {matchLabels: {istio: egress}}, rules: [{when: [{key: source.principal, notValues: [x]}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{when: [{key: source.principal, notValues: [z]}]}]}`,

	"AuthorizationPolicy rules.from.source.requestPrincipals":    `{selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {requestPrincipals: [a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {requestPrincipals: [b]}}]}]}`,
	"AuthorizationPolicy rules.from.source.notRequestPrincipals": `{selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {notRequestPrincipals: [a]}}]}]} ⇒ {selector: {matchLabels: {istio: egress}}, rules: [{from: [{source: {notRequestPrincipals: [b]}}]}]}`,
	"AuthorizationPolicy targetRef.group":                        `{targetRef: {kind: Service, name: istio-egressgateway}} ⇒ {targetRef: {group: gateway.networking.k8s.io, kind: Service, name: istio-egressgateway}}`,
	"AuthorizationPolicy targetRefs.group":                       `{targetRefs: [{kind: Service, name: istio-egressgateway}]} ⇒ {targetRefs: [{group: gateway.networking.k8s.io, kind: Service, name: istio-egressgateway}]}`,
	"RequestAuthentication selector.matchLabels":                 `{selector: {matchLabels: {istio: egress}}, jwtRules: [{issuer: a}]} ⇒ {selector: {matchLabels: {istio: other}}, jwtRules: [{issuer: a}]}`,
	"RequestAuthentication targetRef.group":                      `{targetRef: {kind: Service, name: istio-egressgateway}, jwtRules: [{issuer: a}]} ⇒ {targetRef: {group: gateway.networking.k8s.io, kind: Service, name: istio-egressgateway}, jwtRules: [{issuer: a}]}`,
	"RequestAuthentication targetRef.kind":                       `{targetRef: {kind: Service, name: istio-egressgateway}, jwtRules: [{issuer: a}]} ⇒ {targetRef: {kind: Gateway, name: istio-egressgateway}, jwtRules: [{issuer: a}]}`,
	"RequestAuthentication targetRef.name":                       `{targetRef: {kind: Service, name: istio-egressgateway}, jwtRules: [{issuer: a}]} ⇒ {targetRef: {kind: Service, name: other}, jwtRules: [{issuer: a}]}`,
	"RequestAuthentication targetRefs.group":                     `{targetRefs: [{kind: Service, name: istio-egressgateway}], jwtRules: [{issuer: a}]} ⇒ {targetRefs: [{group: gateway.networking.k8s.io, kind: Service, name: istio-egressgateway}], jwtRules: [{issuer: a}]}`,
	"RequestAuthentication targetRefs.kind":                      `{targetRefs: [{kind: Service, name: istio-egressgateway}], jwtRules: [{issuer: a}]} ⇒ {targetRefs: [{kind: Gateway, name: istio-egressgateway}], jwtRules: [{issuer: a}]}`,
	"RequestAuthentication targetRefs.name":                      `{targetRefs: [{kind: Service, name: istio-egressgateway}], jwtRules: [{issuer: a}]} ⇒ {targetRefs: [{kind: Service, name: other}], jwtRules: [{issuer: a}]}`,
	"RequestAuthentication jwtRules.issuer":                      `{jwtRules: [{issuer: a}]} ⇒ {jwtRules: [{issuer: b}]}`,
	"RequestAuthentication jwtRules.audiences":                   `{jwtRules: [{issuer: a, audiences: [a]}]} ⇒ {jwtRules: [{issuer: a, audiences: [b]}]}`,
	"RequestAuthentication jwtRules.jwks":                        `{jwtRules: [{issuer: a, jwks: '{"keys": []}'}]} ⇒ {jwtRules: [{issuer: a, jwks: '{"keys": [{}]}'}]}`,
	"RequestAuthentication jwtRules.jwksUri":                     `{jwtRules: [{issuer: a, jwksUri: 'https://a.test'}]} ⇒ {jwtRules: [{issuer: a, jwksUri: 'https://b.test'}]}`,
	"RequestAuthentication jwtRules.timeout":                     `{jwtRules: [{issuer: a, jwksUri: 'https://a.test'}]} ⇒ {jwtRules: [{issuer: a, jwksUri: 'https://a.test', timeout: 1s}]}`,
	"RequestAuthentication jwtRules.fromHeaders.name":            `{jwtRules: [{issuer: a, fromHeaders: [{name: a}]}]} ⇒ {jwtRules: [{issuer: a, fromHeaders: [{name: b}]}]}`,
	"RequestAuthentication jwtRules.fromHeaders.prefix":          `{jwtRules: [{issuer: a, fromHeaders: [{name: a}]}]} ⇒ {jwtRules: [{issuer: a, fromHeaders: [{name: a, prefix: b}]}]}`,
	"RequestAuthentication jwtRules.fromParams":                  `{jwtRules: [{issuer: a, fromParams: [a]}]} ⇒ {jwtRules: [{issuer: a, fromParams: [b]}]}`,
	"RequestAuthentication jwtRules.fromCookies":                 `{jwtRules: [{issuer: a, fromCookies: [a]}]} ⇒ {jwtRules: [{issuer: a, fromCookies: [b]}]}`,
	"RequestAuthentication jwtRules.spaceDelimitedClaims":        `{jwtRules: [{issuer: a, spaceDelimitedClaims: [a]}]} ⇒ {jwtRules: [{issuer: a, spaceDelimitedClaims: [b]}]}`,
	"RequestAuthentication jwtRules.outputPayloadToHeader":       `{jwtRules: [{issuer: a, outputPayloadToHeader: a}]} ⇒ {jwtRules: [{issuer: a, outputPayloadToHeader: b}]}`,
	"RequestAuthentication jwtRules.forwardOriginalToken":        `{jwtRules: [{issuer: a, forwardOriginalToken: false}]} ⇒ {jwtRules: [{issuer: a, forwardOriginalToken: true}]}`,
	"RequestAuthentication jwtRules.outputClaimToHeaders.header": `{jwtRules: [{issuer: a, outputClaimToHeaders: [{header: a, claim: c}]}]} ⇒ {jwtRules: [{issuer: a, outputClaimToHeaders: [{header: b, claim: c}]}]}`,
	"RequestAuthentication jwtRules.outputClaimToHeaders.claim":  `{jwtRules: [{issuer: a, outputClaimToHeaders: [{header: a, claim: c}]}]} ⇒ {jwtRules: [{issuer: a, outputClaimToHeaders: [{header: a, claim: d}]}]}`,

	"WorkloadEntry labels":   `{address: 192.0.2.1, labels: {app: w}} ⇒ {address: 192.0.2.1, labels: {app: v}}`,
	"WorkloadEntry address":  `{address: 192.0.2.1, labels: {app: w}} ⇒ {address: 192.0.2.2, labels: {app: w}}`,
	"WorkloadEntry ports":    `{address: 192.0.2.1, labels: {app: w}} ⇒ {address: 192.0.2.1, labels: {app: w}, ports: {http: 81}}`,
	"WorkloadEntry locality": `{address: 192.0.2.1, labels: {app: w}, locality: r1} ⇒ {address: 192.0.2.1, labels: {app: w}, locality: r2}`,
	"WorkloadEntry weight":   `{address: 192.0.2.1, labels: {app: w}, weight: 2} ⇒ {address: 192.0.2.1, labels: {app: w}, weight: 3}`,

	"Sidecar workloadSelector.labels":    `{workloadSelector: {labels: {app: x}}, egress: [{hosts: ['~/*']}]} ⇒ {workloadSelector: {labels: {app: z}}, egress: [{hosts: ['~/*']}]}`,
	"Sidecar egress.hosts":               `{egress: [{hosts: ['./*']}]} ⇒ {egress: [{hosts: ['other/*']}]}`,
	"Sidecar egress.port.number":         `{egress: [{port: {number: 80}, hosts: ['./*']}]} ⇒ {egress: [{port: {number: 81}, hosts: ['./*']}]}`,
	"Sidecar outboundTrafficPolicy.mode": `{outboundTrafficPolicy: {mode: ALLOW_ANY}} ⇒ {outboundTrafficPolicy: {mode: REGISTRY_ONLY}}`,
	"Sidecar ingress.port.number":        `{ingress: [{port: {number: 8080, protocol: TCP}}]} ⇒ {ingress: [{port: {number: 8081, protocol: TCP}}]}`,
	"Sidecar ingress.port.protocol":      `{ingress: [{port: {number: 8080, protocol: TCP}}]} ⇒ {ingress: [{port: {number: 8080, protocol: HTTP}}]}`,
	"Sidecar ingress.defaultEndpoint":    `{ingress: [{port: {number: 8080, protocol: TCP}}]} ⇒ {ingress: [{port: {number: 8080, protocol: TCP}, defaultEndpoint: '127.0.0.1:8081'}]}`,
}

// routes are pairs of what routes of requests, of TLS and of TCP may say.
var routes = map[string]string{
	"http.name":                             `name: a ⇒ name: b`,
	"http.match.name":                       `match: [{name: a}] ⇒ match: [{name: b}]`,
	"http.match.statPrefix":                 `match: [{statPrefix: a}] ⇒ match: [{statPrefix: b}]`,
	"http.match.port":                       `match: [{port: 80}] ⇒ match: [{port: 81}]`,
	"http.match.gateways":                   `match: [{gateways: [mesh]}] ⇒ match: [{gateways: [a]}]`,
	"http.match.sourceLabels":               `match: [{sourceLabels: {app: x}}] ⇒ match: [{sourceLabels: {app: z}}]`,
	"http.match.sourceNamespace":            `match: [{sourceNamespace: default}] ⇒ match: [{sourceNamespace: other}]`,
	"http.match.ignoreUriCase":              `match: [{uri: {prefix: /a}}] ⇒ match: [{uri: {prefix: /a}, ignoreUriCase: true}]`,
	"http.route.destination.host":           `route: [{destination: {host: d.com}}] ⇒ route: [{destination: {host: e.com}}]`,
	"http.route.destination.port.number":    `route: [{destination: {host: d.com, port: {number: 80}}}] ⇒ route: [{destination: {host: d.com, port: {number: 81}}}]`,
	"http.route.destination.subset":         `route: [{destination: {host: d.com, subset: a}}] ⇒ route: [{destination: {host: d.com, subset: b}}]`,
	"http.route.weight":                     `route: [{destination: {host: d.com}, weight: 1}, {destination: {host: d.com}, weight: 1}] ⇒ route: [{destination: {host: d.com}, weight: 1}, {destination: {host: d.com}, weight: 2}]`,
	"http.redirect.uri":                     `redirect: {uri: /a} ⇒ redirect: {uri: /b}`,
	"http.redirect.authority":               `redirect: {authority: a.com} ⇒ redirect: {authority: b.com}`,
	"http.redirect.port":                    `redirect: {port: 81} ⇒ redirect: {port: 82}`,
	"http.redirect.derivePort":              `redirect: {scheme: https, derivePort: FROM_REQUEST_PORT} ⇒ redirect: {scheme: https, derivePort: FROM_PROTOCOL_DEFAULT}`,
	"http.redirect.scheme":                  `redirect: {scheme: http} ⇒ redirect: {scheme: https}`,
	"http.redirect.redirectCode":            `redirect: {uri: /a, redirectCode: 302} ⇒ redirect: {uri: /a, redirectCode: 303}`,
	"http.redirect.prefixRewrite":           `redirect: {prefixRewrite: /a} ⇒ redirect: {prefixRewrite: /b}`,
	"http.directResponse.status":            `directResponse: {status: 200} ⇒ directResponse: {status: 403}`,
	"http.directResponse.body.string":       `directResponse: {status: 200, body: {string: a}} ⇒ directResponse: {status: 200, body: {string: b}}`,
	"http.directResponse.body.bytes":        `directResponse: {status: 200, body: {bytes: YQ==}} ⇒ directResponse: {status: 200, body: {bytes: Yg==}}`,
	"http.delegate.name":                    `delegate: {name: leaf} ⇒ delegate: {name: none}`,
	"http.delegate.namespace":               `delegate: {name: leaf, namespace: default} ⇒ delegate: {name: leaf, namespace: other}`,
	"http.rewrite.uri":                      `rewrite: {uri: /a} ⇒ rewrite: {uri: /b}`,
	"http.rewrite.authority":                `rewrite: {authority: a.com} ⇒ rewrite: {authority: b.com}`,
	"http.rewrite.uriRegexRewrite.match":    `rewrite: {uriRegexRewrite: {match: a, rewrite: b}} ⇒ rewrite: {uriRegexRewrite: {match: c, rewrite: b}}`,
	"http.rewrite.uriRegexRewrite.rewrite":  `rewrite: {uriRegexRewrite: {match: a, rewrite: b}} ⇒ rewrite: {uriRegexRewrite: {match: a, rewrite: c}}`,
	"http.timeout":                          `timeout: 1s ⇒ timeout: 2s`,
	"http.retries.attempts":                 `retries: {attempts: 1} ⇒ retries: {attempts: 2}`,
	"http.retries.perTryTimeout":            `retries: {attempts: 1, perTryTimeout: 1s} ⇒ retries: {attempts: 1, perTryTimeout: 2s}`,
	"http.retries.retryOn":                  `retries: {attempts: 1, retryOn: 5xx} ⇒ retries: {attempts: 1, retryOn: reset}`,
	"http.retries.retryRemoteLocalities":    `retries: {attempts: 1} ⇒ retries: {attempts: 1, retryRemoteLocalities: true}`,
	"http.retries.retryIgnorePreviousHosts": `retries: {attempts: 1} ⇒ retries: {attempts: 1, retryIgnorePreviousHosts: false}`,
	"http.retries.backoff":                  `retries: {attempts: 1, backoff: 1s} ⇒ retries: {attempts: 1, backoff: 2s}`,
	"http.fault.delay.fixedDelay":           `fault: {delay: {fixedDelay: 1s, percentage: {value: 9}}} ⇒ fault: {delay: {fixedDelay: 2s, percentage: {value: 9}}}`,
	"http.fault.delay.percent":              `fault: {delay: {fixedDelay: 1s, percent: 1}} ⇒ fault: {delay: {fixedDelay: 1s, percent: 2}}`,
	"http.fault.delay.percentage.value":     `fault: {delay: {fixedDelay: 1s, percentage: {value: 1}}} ⇒ fault: {delay: {fixedDelay: 1s, percentage: {value: 2}}}`,
	"http.fault.abort.httpStatus":           `fault: {abort: {httpStatus: 500, percentage: {value: 9}}} ⇒ fault: {abort: {httpStatus: 501, percentage: {value: 9}}}`,
	"http.fault.abort.grpcStatus":           `fault: {abort: {grpcStatus: ABORTED, percentage: {value: 9}}} ⇒ fault: {abort: {grpcStatus: UNKNOWN, percentage: {value: 9}}}`,
	"http.fault.abort.percentage.value":     `fault: {abort: {httpStatus: 500, percentage: {value: 1}}} ⇒ fault: {abort: {httpStatus: 500, percentage: {value: 2}}}`,
	"http.mirror.host":                      `mirror: {host: d.com} ⇒ mirror: {host: e.com}`,
	"http.mirror.port.number":               `mirror: {host: d.com, port: {number: 80}} ⇒ mirror: {host: d.com, port: {number: 81}}`,
	"http.mirror.subset":                    `mirror: {host: m.com, subset: a} ⇒ mirror: {host: m.com, subset: b}`,
	"http.mirrors.destination.host":         `mirrors: [{destination: {host: d.com}}] ⇒ mirrors: [{destination: {host: e.com}}]`,
	"http.mirrors.destination.port.number":  `mirrors: [{destination: {host: d.com, port: {number: 80}}}] ⇒ mirrors: [{destination: {host: d.com, port: {number: 81}}}]`,
	"http.mirrors.destination.subset":       `mirrors: [{destination: {host: m.com, subset: a}}] ⇒ mirrors: [{destination: {host: m.com, subset: b}}]`,
	"http.mirrors.percentage.value":         `mirrors: [{destination: {host: d.com}, percentage: {value: 1}}] ⇒ mirrors: [{destination: {host: d.com}, percentage: {value: 2}}]`,
	"http.mirrorPercent":                    `mirror: {host: d.com}, mirrorPercent: 1 ⇒ mirror: {host: d.com}, mirrorPercent: 2`,
	"http.mirrorPercentage.value":           `mirror: {host: d.com}, mirrorPercentage: {value: 1} ⇒ mirror: {host: d.com}, mirrorPercentage: {value: 2}`,
	"http.corsPolicy.allowOrigin":           `corsPolicy: {allowOrigin: [a]} ⇒ corsPolicy: {allowOrigin: [b]}`,
	"http.corsPolicy.allowMethods":          `corsPolicy: {allowMethods: [GET]} ⇒ corsPolicy: {allowMethods: [PUT]}`,
	"http.corsPolicy.allowHeaders":          `corsPolicy: {allowHeaders: [a]} ⇒ corsPolicy: {allowHeaders: [b]}`,
	"http.corsPolicy.exposeHeaders":         `corsPolicy: {exposeHeaders: [a]} ⇒ corsPolicy: {exposeHeaders: [b]}`,
	"http.corsPolicy.maxAge":                `corsPolicy: {maxAge: 1s} ⇒ corsPolicy: {maxAge: 2s}`,
	"http.corsPolicy.allowCredentials":      `corsPolicy: {allowCredentials: true} ⇒ corsPolicy: {allowCredentials: false}`,
	"http.corsPolicy.unmatchedPreflights":   `corsPolicy: {unmatchedPreflights: FORWARD} ⇒ corsPolicy: {unmatchedPreflights: IGNORE}`,

	"tls.match.port":                    `{match: [{sniHosts: [d.com], port: 443}], %s} ⇒ {match: [{sniHosts: [d.com], port: 444}], %s}`,
	"tls.match.gateways":                `{match: [{sniHosts: [d.com], gateways: [mesh]}], %s} ⇒ {match: [{sniHosts: [d.com], gateways: [a]}], %s}`,
	"tls.match.sourceLabels":            `{match: [{sniHosts: [d.com], sourceLabels: {app: x}}], %s} ⇒ {match: [{sniHosts: [d.com], sourceLabels: {app: z}}], %s}`,
	"tls.match.sourceNamespace":         `{match: [{sniHosts: [d.com], sourceNamespace: default}], %s} ⇒ {match: [{sniHosts: [d.com], sourceNamespace: other}], %s}`,
	"tls.match.destinationSubnets":      `{match: [{sniHosts: [d.com], destinationSubnets: [192.0.2.1]}], %s} ⇒ {match: [{sniHosts: [d.com], destinationSubnets: [192.0.2.2]}], %s}`,
	"tls.match.sniHosts":                `{match: [{sniHosts: [d.com]}], %s} ⇒ {match: [{sniHosts: [D.com, d.com]}], %s}`,
	"tls.route.destination.host":        `{match: [{sniHosts: [d.com]}], route: [{destination: {host: d.com}}]} ⇒ {match: [{sniHosts: [d.com]}], route: [{destination: {host: e.com}}]}`,
	"tls.route.destination.port.number": `{match: [{sniHosts: [d.com]}], route: [{destination: {host: d.com, port: {number: 443}}}]} ⇒ {match: [{sniHosts: [d.com]}], route: [{destination: {host: d.com, port: {number: 90}}}]}`,
	"tls.route.destination.subset":      `{match: [{sniHosts: [d.com]}], route: [{destination: {host: d.com, subset: a}}]} ⇒ {match: [{sniHosts: [d.com]}], route: [{destination: {host: d.com, subset: b}}]}`,
	"tls.route.weight":                  `{match: [{sniHosts: [d.com]}], route: [{destination: {host: d.com}, weight: 1}, {destination: {host: d.com}, weight: 1}]} ⇒ {match: [{sniHosts: [d.com]}], route: [{destination: {host: d.com}, weight: 1}, {destination: {host: d.com}, weight: 2}]}`,
	"tcp.match.port":                    `{match: [{port: 90}], %s} ⇒ {match: [{port: 91}], %s}`,
	"tcp.match.gateways":                `{match: [{gateways: [mesh]}], %s} ⇒ {match: [{gateways: [a]}], %s}`,
	"tcp.match.sourceLabels":            `{match: [{sourceLabels: {app: x}}], %s} ⇒ {match: [{sourceLabels: {app: z}}], %s}`,
	"tcp.match.sourceNamespace":         `{match: [{sourceNamespace: default}], %s} ⇒ {match: [{sourceNamespace: other}], %s}`,
	"tcp.match.destinationSubnets":      `{match: [{destinationSubnets: [192.0.2.1]}], %s} ⇒ {match: [{destinationSubnets: [192.0.2.2]}], %s}`,
	"tcp.route.destination.host":        `{route: [{destination: {host: d.com}}]} ⇒ {route: [{destination: {host: e.com}}]}`,
	"tcp.route.destination.port.number": `{route: [{destination: {host: d.com, port: {number: 90}}}]} ⇒ {route: [{destination: {host: d.com, port: {number: 443}}}]}`,
	"tcp.route.destination.subset":      `{route: [{destination: {host: d.com, subset: a}}]} ⇒ {route: [{destination: {host: d.com, subset: b}}]}`,
	"tcp.route.weight":                  `{route: [{destination: {host: d.com}, weight: 1}, {destination: {host: d.com}, weight: 1}]} ⇒ {route: [{destination: {host: d.com}, weight: 1}, {destination: {host: d.com}, weight: 2}]}`,
}

// routePair makes the two specs of a VirtualService that differ in a field of a route.
func routePair(path string) (one, other string, ok bool) {
	pair, ok := routes[path]
	for _, of := range []string{"http.match.uri", "http.match.scheme", "http.match.method", "http.match.authority", "http.match.headers", "http.match.withoutHeaders", "http.match.queryParams", "http.corsPolicy.allowOrigins"} {
		kind, is := strings.CutPrefix(path, of+".")
		if !is {
			continue
		}
		field := of[strings.LastIndex(of, ".")+1:]
		value := func(v string) string {
			switch {
			case field == "allowOrigins":
				return fmt.Sprintf("corsPolicy: {allowOrigins: [{%s: %s}]}", kind, v)
			case strings.HasSuffix(strings.ToLower(field), "headers") || field == "queryParams":
				return fmt.Sprintf("match: [{%s: {k: {%s: %s}}}]", field, kind, v)
			default:
				return fmt.Sprintf("match: [{%s: {%s: %s}}]", field, kind, v)
			}
		}
		pair, ok = value("/a")+" ⇒ "+value("/b"), true
	}
	if at := max(strings.Index(path, "headers.request."), strings.Index(path, "headers.response.")); at > 0 {
		do, what := path[at:], "{x-a: v}"
		if strings.HasSuffix(do, "remove") {
			what = "[x-a]"
		}
		parts := strings.Split(do, ".")
		value := func(v string) string { return fmt.Sprintf("headers: {%s: {%s: %s}}", parts[1], parts[2], v) }
		pair, ok = value(what)+" ⇒ "+value(strings.ReplaceAll(what, "x-a", "x-b")), true
		if strings.HasPrefix(path, "http.route.") {
			pair = "route: [{destination: {host: d.com}, " + value(what) + "}] ⇒ route: [{destination: {host: d.com}, " + value(strings.ReplaceAll(what, "x-a", "x-b")) + "}]"
		}
	}
	one, other, _ = strings.Cut(pair, " ⇒ ")
	list, _, _ := strings.Cut(path, ".")
	spec := func(s string) string {
		if list != "http" {
			return "{hosts: [d.com, D2.com], " + list + ": [" + strings.ReplaceAll(s, "%s", "route: [{destination: {host: e.com}}]") + "]}"
		}
		if !strings.Contains(s, "route:") && !strings.Contains(s, "redirect:") && !strings.Contains(s, "directResponse:") && !strings.Contains(s, "delegate:") {
			s += ", route: [{destination: {host: d.com}}]"
		}
		return "{hosts: [d.com], http: [{" + s + "}]}"
	}
	return spec(one), spec(other), ok
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
	"loadBalancer.localityLbSetting.distribute.from":          `{loadBalancer: {localityLbSetting: {distribute: [{from: r1, to: {r1: 20, r2: 80}}]}}} ⇒ {loadBalancer: {localityLbSetting: {distribute: [{from: r2, to: {r1: 20, r2: 80}}]}}}`,
	"loadBalancer.localityLbSetting.distribute.to":            `{loadBalancer: {localityLbSetting: {distribute: [{from: r1, to: {r1: 20, r2: 80}}]}}} ⇒ {loadBalancer: {localityLbSetting: {distribute: [{from: r1, to: {r1: 30, r2: 70}}]}}}`,
	"loadBalancer.localityLbSetting.enabled":                  `{outlierDetection: {consecutive5xxErrors: 5}, loadBalancer: {localityLbSetting: {enabled: true}}} ⇒ {outlierDetection: {consecutive5xxErrors: 5}, loadBalancer: {localityLbSetting: {enabled: false}}}`,
	"loadBalancer.localityLbSetting.failover.from":            `{outlierDetection: {consecutive5xxErrors: 5}, loadBalancer: {localityLbSetting: {failover: [{from: r1, to: r3}]}}} ⇒ {outlierDetection: {consecutive5xxErrors: 5}, loadBalancer: {localityLbSetting: {failover: [{from: r2, to: r3}]}}}`,
	"loadBalancer.localityLbSetting.failover.to":              `{outlierDetection: {consecutive5xxErrors: 5}, loadBalancer: {localityLbSetting: {failover: [{from: r1, to: r2}]}}} ⇒ {outlierDetection: {consecutive5xxErrors: 5}, loadBalancer: {localityLbSetting: {failover: [{from: r1, to: r3}]}}}`,
	"loadBalancer.localityLbSetting.failoverPriority":         `{outlierDetection: {consecutive5xxErrors: 5}, loadBalancer: {localityLbSetting: {failoverPriority: [topology.kubernetes.io/region]}}} ⇒ {outlierDetection: {consecutive5xxErrors: 5}, loadBalancer: {localityLbSetting: {failoverPriority: [topology.kubernetes.io/region=r2]}}}`,
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
	if rest, policy := strings.CutPrefix(path, "subsets.trafficPolicy."); !ok && policy {
		one, other, ok = pairOf(kind, "trafficPolicy."+rest)
		within := func(s string) string {
			return strings.Replace(strings.TrimSuffix(s, "}"), "trafficPolicy:", "subsets: [{name: s, trafficPolicy:", 1) + "}]}"
		}
		return within(one), within(other), ok
	}
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
	if !ok && kind == "VirtualService" {
		return routePair(path)
	}
	one, other, _ = strings.Cut(pair, " ⇒ ")
	return one, other, ok
}

// TestAppliedFieldsChangeSomething: what a table of config/fields calls applied makes a difference to what some
// proxy is given.
func TestAppliedFieldsChangeSomething(t *testing.T) {
	registrytest.InOneGoroutine(t)
	settings, err := mesh.Parse([]byte(folders))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ServiceEntry", "WorkloadEntry", "DestinationRule", "Sidecar", "VirtualService", "Gateway", "EgressPolicy", "AuthorizationPolicy", "PeerAuthentication", "RequestAuthentication", "Telemetry"} {
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
			if f.Path == "exportTo" && (kind == "DestinationRule" || kind == "VirtualService") {
				ns = "other"
			}
			if kind == "EgressPolicy" && (strings.HasPrefix(f.Path, "namespaces.") || f.Path == "rules.final" || f.Path == "rules.unregistered") {
				ns = settings.RootNamespace
			}
			if kind == "AuthorizationPolicy" || kind == "RequestAuthentication" { // where the gateway is
				ns = settings.RootNamespace
			}
			if given(t, settings, kind, ns, one) == given(t, settings, kind, ns, other) {
				t.Errorf("%s %s: proxies are given the same for %s and for %s", kind, f.Path, one, other)
			}
		}
	}
}

// pairNodes are a sidecar, the egress gateway and an ingress gateway.
var pairNodes = []translate.Node{
	{ID: "sidecar~10.0.0.1~app.default~default.svc.cluster.local", Namespace: "default", Labels: map[string]string{"app": "x", "istio-locality": "r1.z1"}},
	{ID: "router~10.0.0.2~istio-egressgateway.istio-system~istio-system.svc.cluster.local", Namespace: "istio-system", Labels: map[string]string{"istio": "egress"}},
	{ID: "router~10.0.0.3~in.default~default.svc.cluster.local", Namespace: "default", Labels: map[string]string{"istio": "in"}},
}

// pairObjects are the objects around one with a spec, which is the last.
func pairObjects(t *testing.T, kind, ns, spec string) []config.Object {
	t.Helper()
	r := decode.File("a.yaml", []byte(around+certificates()+"---\napiVersion: "+fields.Of(kind).API+"\nkind: "+kind+"\nmetadata: {name: x, namespace: "+ns+"}\nspec: "+spec+"\n"))
	for _, f := range r.Findings {
		t.Fatalf("%s: %s", spec, f)
	}
	return r.Objects
}

// given is what a sidecar, the egress gateway and an ingress gateway get with an object of that spec.
func given(t *testing.T, settings mesh.Config, kind, ns, spec string) string {
	t.Helper()
	var b strings.Builder
	s := testCase{objects: pairObjects(t, kind, ns, spec), mesh: settings}.snapshot()
	fmt.Fprintln(&b, s.WantedKeys())
	for _, node := range pairNodes {
		for _, v := range []*translate.View{translate.NewTranslator().Build(s, translate.Classify(s, node)), translate.BuildPolicies(s, translate.PolicedBy(s, node))} {
			for _, kind := range resource.Types() {
				v.Walk(kind, func(r *resource.Resource) bool { fmt.Fprintln(&b, r.Type, r.Name, r.Version); return true })
			}
		}
	}
	return b.String()
}

// certificates are Secrets with a certificate, its key, and whom to trust.
var certificates = sync.OnceValue(func() (out string) {
	for _, name := range []string{"cert", "cert2"} {
		key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
		der, _ := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		secret, _ := x509.MarshalPKCS8PrivateKey(key)
		text := func(kind string, der []byte) string {
			return strconv.Quote(string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
		}
		out += fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s}\nstringData: {cert: %s, key: %s, cacert: %[2]s}\n", name, text("CERTIFICATE", der), text("PRIVATE KEY", secret))
	}
	return out
})
