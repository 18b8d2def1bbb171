package translate_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// picker picks something of the prey, or something like it, for the fields of a neighbour's object.
type picker struct{ *rand.Rand }

func (p picker) of(list ...string) string { return list[p.IntN(len(list))] }

// host is a name of others as nobody would write it: in any case, with the root's dot, below it, or in letters that look alike.
func (p picker) host() string {
	h := p.of(prey.Names...)
	switch p.IntN(8) {
	case 0:
		return strings.ToUpper(h)
	case 4:
		return p.alike(h)
	case 5:
		return p.of("xn--80ak6aa92e."+strings.TrimPrefix(h, "*."), strings.Replace(h, ".", ".xn--", 1), "XN--"+strings.TrimPrefix(h, "*."))
	case 1:
		return h + "."
	case 2:
		return "*." + strings.TrimPrefix(h, "*.")
	case 3:
		return "x." + strings.TrimPrefix(h, "*.")
	default:
		return h
	}
}

// alike is a name in letters of other scripts, which some who look names up make the plain ones, or with what others leave out.
func (p picker) alike(h string) string {
	switch p.IntN(6) {
	case 0:
		return strings.Replace(h, "a", "\u0430", 1) // Cyrillic
	case 1:
		return strings.ReplaceAll(h, ".", "\u3002") // an ideographic full stop
	case 2:
		return strings.Replace(h, "t", "\uff54", 1) // full width
	case 3:
		return strings.Replace(h, "s", "\u017f", 1) // a long s, which is an s in upper case
	case 4:
		return strings.Replace(h, "k", "\u212a", 1) + "\u200d" // a Kelvin sign, which is a k in lower case; a joiner
	default:
		return strings.Replace(h, ".", "%2e", 1)
	}
}

func (p picker) plain() string { return strings.TrimPrefix(p.host(), "*.") }

func (p picker) address() string {
	return strings.Split(p.of(append([]string{"127.0.0.1", "169.254.169.254", "0.0.0.0", "::ffff:10.244.0.9", "64:ff9b::a60:a"}, prey.Addresses...)...), "/")[0]
}

func (p picker) service() (ns, name string) {
	ns, name, _ = strings.Cut(p.of(prey.Services...), "/")
	return ns, name
}

func (p picker) labels() string {
	return p.of("{istio: egressgateway}", "{app: a}", "{app: db}", "{}", "{istio: ingressgateway}", "{gateway.networking.k8s.io/gateway-name: istio-egressgateway}")
}

func (p picker) port() string {
	return p.of("80", "443", "5432", "8080", "9000", "8443", "15000", "15001", "15006", "15008", "15012", "15017", "15020", "15021", "15053", "15090")
}

// parent is something that a route of the Gateway API says it is for.
func (p picker) parent() string {
	ns, name := p.service()
	return p.of(
		fmt.Sprintf("{group: '', kind: Service, name: %s, namespace: %s}", name, ns),
		fmt.Sprintf("{group: '', kind: Service, name: %s, namespace: %s, port: %s}", name, ns, p.port()),
		fmt.Sprintf("{group: networking.istio.io, kind: ServiceEntry, name: %s, namespace: %s}", p.of("api", "wild", "direct", "addressed"), "team-a"),
		fmt.Sprintf("{group: networking.istio.io, kind: Hostname, name: %s}", p.plain()),
		"{name: front, namespace: team-a}", "{name: front, namespace: team-a, sectionName: http}", "{name: mine}",
		"{group: gateway.networking.k8s.io, kind: ListenerSet, name: mine}",
	)
}

func (p picker) backend() string {
	ns, name := p.service()
	return p.of(
		fmt.Sprintf("{name: %s, namespace: %s, port: %s}", name, ns, p.port()),
		fmt.Sprintf("{group: networking.istio.io, kind: Hostname, name: %s, port: 80}", p.plain()),
		"{name: evil, port: 80}",
	)
}

// everyKind makes an object of each kind, by the kind's name.
var everyKind = map[config.Kind]func(p picker) string{
	config.KindServiceEntry: func(p picker) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s, namespace: team-b}\nspec: {hosts: [%q], addresses: [%q], location: %s, resolution: %s, exportTo: [%q], endpoints: [{address: %q, network: %s, ports: {p: %s}}], ports: [{number: %s, name: p, protocol: %s, targetPort: %s}]}\n",
			p.of("e1", "e2"), p.host(), p.of(prey.Addresses...), p.of("MESH_EXTERNAL", "MESH_INTERNAL"), p.of("STATIC", "DNS", "NONE"), p.of("*", ".", "team-a"), p.address(), p.of("''", "other"), p.port(), p.port(), p.of("HTTP", "TLS", "TCP", "HTTPS", "UDP"), p.port())
	},
	config.KindGateway: func(p picker) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: g, namespace: team-b}\nspec: {selector: %s, servers: [{hosts: [%q], port: {number: %s, name: x, protocol: %s}, tls: {mode: %s}}]}\n",
			p.labels(), p.of("*", "team-a/*", "./*", p.host()), p.port(), p.of("HTTP", "HTTPS", "TLS", "TCP", "MONGO"), p.of("PASSTHROUGH", "SIMPLE", "AUTO_PASSTHROUGH", "ISTIO_MUTUAL"))
	},
	config.KindVirtualService: func(p picker) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: %s, namespace: team-b}\nspec: {hosts: [%q], gateways: [%s], exportTo: [%q], http: [{%s}]}\n",
			p.of("v1", "v2"), p.host(), p.of("mesh", "team-a/front", "g", "istio-system/egress", "mesh, g", "mesh, team-a/front"), p.of("*", ".", "team-a"),
			p.of("route: [{destination: {host: evil.test}}]", "match: [{gateways: [mesh]}], route: [{destination: {host: front.team-a.svc.cluster.local}}]", "delegate: {name: a-routes, namespace: team-a}", "directResponse: {status: 503}", "redirect: {authority: evil.test}", fmt.Sprintf("route: [{destination: {host: %s}}], mirror: {host: evil.test}", p.plain())))
	},
	config.KindDestinationRule: func(p picker) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: %s, namespace: team-b}\nspec: {host: %q, exportTo: [%q], workloadSelector: {matchLabels: %s}, trafficPolicy: {tls: {mode: %s}, connectionPool: {tcp: {maxConnections: 1}}, outlierDetection: {consecutive5xxErrors: 1, maxEjectionPercent: 100}}, subsets: [{name: v1, labels: %s}]}\n",
			p.of("r1", "r2"), p.host(), p.of("*", ".", "team-a"), p.labels(), p.of("DISABLE", "SIMPLE", "ISTIO_MUTUAL"), p.labels())
	},
	config.KindSidecar: func(p picker) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: s, namespace: team-b}\nspec: {workloadSelector: {labels: %s}, egress: [{hosts: [%s]}], outboundTrafficPolicy: {mode: %s}}\n", p.labels(), p.of("'*/*'", "'~/*'", "'./*'"), p.of("ALLOW_ANY", "REGISTRY_ONLY"))
	},
	config.KindWorkloadEntry: func(p picker) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: %s, namespace: team-b}\nspec: {address: %q, labels: %s, serviceAccount: %s, network: %s, locality: r/z, weight: 1000}\n", p.of("w1", "w2"), p.of(p.address(), "api.own.test", "localhost"), p.labels(), p.of("a", "egress", "default"), p.of("''", "other"))
	},
	config.KindWorkloadGroup: func(p picker) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: WorkloadGroup\nmetadata: {name: wg, namespace: team-b}\nspec: {metadata: {labels: %s}, template: {serviceAccount: %s, network: other, ports: {http: %s}}}\n", p.labels(), p.of("a", "egress"), p.port())
	},
	config.KindService: func(p picker) string {
		_, name := p.service()
		return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: team-b, annotations: {networking.istio.io/exportTo: %q}, labels: {istio.io/use-waypoint: waypoint, istio.io/ingress-use-waypoint: 'true', istio.io/global: 'true'}}\nspec: {%s, selector: %s, externalIPs: [%q], loadBalancerIP: %q, ports: [{name: %s, port: %s, targetPort: %s}]}\nstatus: {loadBalancer: {ingress: [{ip: %q}, {hostname: api.own.test}]}}\n",
			p.of(name, "sallyport", "kubernetes"), p.of("*", "team-a", ""),
			p.of("type: ExternalName, externalName: "+p.plain(), "clusterIP: None", "type: LoadBalancer, clusterIP: 10.96.7.9", "clusterIP: 10.96.7.10, clusterIPs: [10.96.7.10, 'fd00::7']", "clusterIP: 10.96.7.11, sessionAffinity: ClientIP, internalTrafficPolicy: Local"), p.labels(), p.address(), p.address(), p.of("http", "https", "tcp"), p.of("80", "443", "8080"), p.port(), p.address())
	},
	config.KindEndpointSlice: func(p picker) string {
		_, name := p.service()
		return fmt.Sprintf("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %s, namespace: team-b, labels: {kubernetes.io/service-name: %s}}\naddressType: %s\nendpoints: [{addresses: [%q], hostname: %s, nodeName: node-1, targetRef: {kind: Pod, namespace: %s, name: a-1}}]\nports: [{name: http, port: %s}]\n",
			p.of("s1", "s2", "checkout-1"), name, p.of("IPv4", "IPv6", "FQDN"), p.of(p.address(), "api.own.test"), p.of("db-0", "a"), p.of("team-a", "team-b", "store"), p.port())
	},
	config.KindPod: func(p picker) string {
		ip := p.address()
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: team-b, labels: %s, annotations: {sidecar.istio.io/status: '{}', ambient.istio.io/redirection: enabled}}\nspec: {serviceAccountName: %s, hostNetwork: %s, hostname: db-0, subdomain: db, nodeName: node-1}\nstatus: {podIP: %q, podIPs: [{ip: %q}, {ip: %q}], phase: %s}\n", p.of("p1", "p2", "a-1"), p.labels(), p.of("a", "egress", "default"), p.of("true", "false"), ip, ip, p.address(), p.of("Running", "Pending"))
	},
	config.KindNamespace: func(p picker) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: team-b, labels: {istio.io/dataplane-mode: %s, istio.io/use-waypoint: %s, istio.io/use-waypoint-namespace: %s, topology.istio.io/network: other, istio-injection: %s}, annotations: {egress.sallyport.io/gateway: %s}}\n", p.of("ambient", "none"), p.of("waypoint", "none"), p.of("team-b", "team-a", "istio-system"), p.of("enabled", "disabled"), p.of("direct", "team-b/mine", "istio-system/istio-egressgateway", "team-a/a"))
	},
	config.KindSecret: func(p picker) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: team-b}\nstringData: {tls.crt: x, tls.key: y}\n", p.of("cacerts", "sallyport-ca", "secret"))
	},
	config.KindConfigMap: func(p picker) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: team-b}\ndata: {mesh: 'rootNamespace: team-b', ca.crt: x}\n", p.of("istio", "sallyport", "kube-root-ca.crt"))
	},
	config.KindEgressPolicy: func(p picker) string {
		return fmt.Sprintf("apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: p, namespace: team-b}\nspec: {selector: {matchLabels: %s}, mode: Enforce, rules: [{name: r, action: %s, hosts: [%q]}]}\n", p.labels(), p.of("Allow", "Deny"), p.host())
	},
	config.KindPeerAuthentication: func(p picker) string {
		return fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: %s, namespace: team-b}\nspec: {selector: {matchLabels: %s}, mtls: {mode: %s}}\n", p.of("default", "p"), p.labels(), p.of("STRICT", "DISABLE", "PERMISSIVE"))
	},
	config.KindAuthorizationPolicy: func(p picker) string {
		return fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: z, namespace: team-b}\nspec: {%s action: %s, rules: [{}]}\n",
			p.of("selector: {matchLabels: "+p.labels()+"},", "", "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: front}],"), p.of("DENY", "ALLOW", "AUDIT"))
	},
	config.KindRequestAuthentication: func(p picker) string {
		return fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: z, namespace: team-b}\nspec: {selector: {matchLabels: %s}, jwtRules: [{issuer: i, jwks: '{\"keys\":[]}', outputPayloadToHeader: x-a}]}\n", p.labels())
	},
	config.KindKubeGateway: func(p picker) string {
		return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: %s, namespace: team-b, labels: {istio.io/waypoint-for: all}}\nspec: {gatewayClassName: %s, addresses: [{type: IPAddress, value: %q}, {type: Hostname, value: istio-egressgateway.istio-system.svc.cluster.local}], listeners: [{name: http, port: %s, protocol: %s, allowedRoutes: {namespaces: {from: All}}}]}\n",
			p.of("mine", "waypoint", "front"), p.of("istio", "istio-waypoint", "sallyport", "istio-east-west", "sallyport-egress"), p.address(), p.port(), p.of("HTTP", "HBONE", "TCP", "TLS"))
	},
	config.KindGatewayClass: func(p picker) string {
		return "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: mine}\nspec: {controllerName: istio.io/gateway-controller}\n"
	},
	config.KindListenerSet: func(p picker) string {
		return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: mine, namespace: team-b}\nspec: {parentRef: {name: %s, namespace: %s}, listeners: [{name: l, port: %s, protocol: %s, hostname: %s}]}\n", p.of("front", "mine"), p.of("team-a", "team-b"), p.port(), p.of("HTTP", "TCP"), p.plain())
	},
	config.KindHTTPRoute: func(p picker) string {
		return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: %s, namespace: team-b}\nspec: {parentRefs: [%s], hostnames: [%s], rules: [{backendRefs: [%s]}]}\n", p.of("r1", "r2"), p.parent(), p.plain(), p.backend())
	},
	config.KindGRPCRoute: func(p picker) string {
		return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata: {name: r1, namespace: team-b}\nspec: {parentRefs: [%s], hostnames: [%s], rules: [{backendRefs: [%s]}]}\n", p.parent(), p.plain(), p.backend())
	},
	config.KindTLSRoute: func(p picker) string {
		return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: TLSRoute\nmetadata: {name: r1, namespace: team-b}\nspec: {parentRefs: [%s], hostnames: [%s], rules: [{backendRefs: [%s]}]}\n", p.parent(), p.plain(), p.backend())
	},
	config.KindTCPRoute: func(p picker) string {
		return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: TCPRoute\nmetadata: {name: r1, namespace: team-b}\nspec: {parentRefs: [%s], rules: [{backendRefs: [%s]}]}\n", p.parent(), p.backend())
	},
	config.KindUDPRoute: func(p picker) string {
		return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: UDPRoute\nmetadata: {name: r1, namespace: team-b}\nspec: {parentRefs: [%s], rules: [{backendRefs: [%s]}]}\n", p.parent(), p.backend())
	},
	config.KindReferenceGrant: func(p picker) string {
		return "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: {name: all, namespace: team-b}\nspec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: team-a}], to: [{group: '', kind: Service}, {group: '', kind: Secret}]}\n"
	},
	config.KindBackendTLSPolicy: func(p picker) string {
		_, name := p.service()
		return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {name: t, namespace: team-b}\nspec: {targetRefs: [{group: %s, kind: %s, name: %s}], validation: {hostname: evil.test, wellKnownCACertificates: System}}\n", p.of("''", "networking.istio.io"), p.of("Service", "ServiceEntry", "Hostname"), p.of(name, "api"))
	},
	config.KindProxyConfig: func(p picker) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1beta1\nkind: ProxyConfig\nmetadata: {name: c, namespace: team-b}\nspec: {selector: {matchLabels: %s}, concurrency: 64, environmentVariables: {ROOT: x}}\n", p.labels())
	},
	config.KindTelemetry: func(p picker) string {
		return fmt.Sprintf("apiVersion: telemetry.istio.io/v1\nkind: Telemetry\nmetadata: {name: c, namespace: team-b}\nspec: {selector: {matchLabels: %s}, accessLogging: [{disabled: true}]}\n", p.labels())
	},
	config.KindEnvoyFilter: func(p picker) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: c, namespace: team-b}\nspec: {workloadSelector: {labels: %s}, configPatches: [{applyTo: LISTENER, match: {context: ANY}, patch: {operation: REMOVE}}]}\n", p.labels())
	},
	config.KindTrafficExtension: func(p picker) string {
		return fmt.Sprintf("apiVersion: extensions.istio.io/v1alpha1\nkind: TrafficExtension\nmetadata: {name: c, namespace: team-b}\nspec: {selector: {matchLabels: %s}}\n", p.labels())
	},
	"XListenerSet": func(p picker) string {
		return fmt.Sprintf("apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XListenerSet\nmetadata: {name: mine, namespace: team-b}\nspec: {parentRef: {name: front, namespace: team-a}, listeners: [{name: l, port: %s, protocol: %s}]}\n", p.port(), p.of("HTTP", "TCP"))
	},
	"Endpoints": func(p picker) string {
		_, name := p.service()
		return fmt.Sprintf("apiVersion: v1\nkind: Endpoints\nmetadata: {name: %s, namespace: team-b}\nsubsets: [{addresses: [{ip: %q}], ports: [{port: %s}]}]\n", name, p.address(), p.port())
	},
	"ServiceImport": func(p picker) string {
		_, name := p.service()
		return fmt.Sprintf("apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceImport\nmetadata: {name: %s, namespace: team-b}\nspec: {type: ClusterSetIP, ips: [%q], ports: [{port: %s}]}\n", name, p.address(), p.port())
	},
	"Ingress": func(p picker) string {
		_, name := p.service()
		return fmt.Sprintf("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i, namespace: team-b}\nspec: {ingressClassName: istio, rules: [{host: %q, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %s, port: {number: 80}}}}]}}]}\n", p.plain(), name)
	},
	config.KindWasmPlugin: func(p picker) string {
		return fmt.Sprintf("apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\nmetadata: {name: c, namespace: team-b}\nspec: {selector: {matchLabels: %s}, url: 'file:///etc/passwd'}\n", p.labels())
	},
}

// shop is an ingress gateway of team-a's, and what else of it a neighbour may have its eyes on.
const shop = `---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: team-a}
spec: {clusterIP: 10.96.0.30, selector: {istio: ingressgateway}, ports: [{name: http, port: 80, targetPort: 8080}, {name: https, port: 443, targetPort: 8443}]}
---
apiVersion: v1
kind: Pod
metadata: {name: front-1, namespace: team-a, labels: {istio: ingressgateway}}
spec: {serviceAccountName: front}
status: {podIP: 10.244.0.40, phase: Running}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: front, namespace: team-a}
spec: {selector: {istio: ingressgateway}, servers: [{hosts: ["./*"], port: {number: 80, name: http, protocol: HTTP}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: front, namespace: team-a}
spec: {hosts: [shop.test], gateways: [front], http: [{route: [{destination: {host: a.team-a.svc.cluster.local, port: {number: 8080}}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: a-routes, namespace: team-a}
spec: {http: [{route: [{destination: {host: a.team-a.svc.cluster.local}}]}]}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: vms, namespace: team-a}
spec: {template: {serviceAccount: vm}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: in, namespace: team-a}
spec: {action: ALLOW, rules: [{from: [{source: {namespaces: [team-a]}}]}]}
`

var frontPod = translate.Node{ID: "router~10.244.0.40~front-1.team-a~team-a.svc.cluster.local", Namespace: "team-a", Labels: map[string]string{"istio": "ingressgateway"}}

// wholes are the listeners of team-a's proxies as they are, and all of its ingress gateway.
func wholes(s *registry.Snapshot, out map[string]string) {
	for _, n := range []translate.Node{teamA, frontPod} {
		v := see(s, n)
		kinds := []resource.Type{resource.Listener}
		if n.ID == frontPod.ID {
			kinds = resource.Types()
		}
		for _, kind := range kinds {
			v.Walk(kind, func(r *resource.Resource) bool {
				if kind == resource.Listener && strings.HasPrefix(r.Name, "0.0.0.0_") && n.ID == teamA.ID {
					return true // which ports others registered is theirs to say
				}
				out[n.ID+" "+kind.URL()+" "+r.Name] = fmt.Sprint(r.Version)
				return true
			})
		}
	}
}

// TestNoKindOfNeighboursChangesAnything is TestNeighboursChangeNothing for objects of every kind that is read, with what is
// seldom written in them.
func TestNoKindOfNeighboursChangesAnything(t *testing.T) {
	t.Parallel()
	trials := max(*worlds/30, 1)
	if registrytest.Raced || testing.Short() {
		trials = 1
	}
	for seed := range trials {
		cfg := mesh.Default()
		r := registry.New(&cfg)
		apply := func(text string, created int64) (*registry.Snapshot, bool) {
			read := decode.File("objects.yaml", []byte(text))
			var changes []config.Change
			for i := range read.Objects {
				read.Objects[i].Created = time.Unix(created, 0)
				if created < 1_600_000_000 && seed%2 == 0 && admission.Refused(admission.Validate(read.Objects[i])) {
					continue
				}
				changes = append(changes, config.Change{Key: read.Objects[i].Key, Object: &read.Objects[i]})
			}
			s, _ := r.Apply(changes)
			return s, len(changes) > 0
		}
		before, _ := apply(ours+shop, 1_600_000_000)
		all := func(s *registry.Snapshot) map[string]string {
			out := meets(s)
			wholes(s, out)
			return out
		}
		was := all(before)
		p := picker{rand.New(rand.NewPCG(seed, 11))}
		kinds := slices.Sorted(maps.Keys(everyKind))
		p.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		for _, kind := range kinds {
			text := everyKind[kind](p)
			s, some := apply(text, 1_500_000_000)
			if !some {
				t.Logf("not read: %s", text)
				continue
			}
			is := all(s)
			for key := range is {
				if _, there := was[key]; !there && strings.HasPrefix(key, frontPod.ID) {
					delete(is, key) // a Gateway may open ports at whatever pods it selects: what was there stays
				}
			}
			if d := cmp.Diff(was, is); d != "" {
				t.Errorf("seed %d: after\n%s\n%.3000s", seed, text, d)
				break
			}
			holdAccepted(t, s)
		}
	}
}

// TestAgeTakesNothingOfAnIngressGateway: objects that somebody had before, and writes something else in, take neither ports nor names of another namespace's
// gateway from its own.
func TestAgeTakesNothingOfAnIngressGateway(t *testing.T) {
	t.Parallel()
	open := strings.Replace(shop, `hosts: ["./*"]`, `hosts: ["*"]`, 1)
	gateway := func(server string) string {
		return "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: g, namespace: team-b}\nspec: {selector: {istio: ingressgateway}, servers: [" + server + "]}\n"
	}
	routes := func(host, bound string) string {
		return "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v, namespace: team-b}\nspec: {hosts: [" + host + "], gateways: [" + bound + "], http: [{route: [{destination: {host: checkout.store.svc.cluster.local}}]}]}\n"
	}
	leading := func(bound string) string {
		return "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v, namespace: team-b}\nspec: {hosts: [b.test], gateways: [mesh, " + bound + "], http: [{match: [{gateways: [mesh], port: 80}], route: [{destination: {host: front.team-a.svc.cluster.local, port: {number: 80}}}]}]}\n"
	}
	registered := func(host string) string {
		return "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: e, namespace: team-b}\nspec: {hosts: [" + host + "], location: MESH_INTERNAL, exportTo: ['.'], addresses: [10.244.0.9], resolution: NONE, ports: [{number: 443, name: tcp, protocol: TCP}]}\n"
	}
	for what, text := range map[string]string{
		"what it lets in, as an exit by its Gateway": leading("team-a/front"),
		"what it lets in, as an exit by another":     gateway("{hosts: [b.test], port: {number: 443, name: x, protocol: TLS}, tls: {mode: PASSTHROUGH}}") + "---\n" + leading("g"),
		"its pods, as the control plane":             registered("sallyport.istio-system.svc.cluster.local"),
		"its pods, as a gateway":                     registered("istio-egressgateway.istio-system.svc.cluster.local"),
		"TCP at its port":                            gateway("{hosts: ['*'], port: {number: 80, name: x, protocol: TCP}}"),
		"TLS at its port":                            gateway("{hosts: ['*'], port: {number: 80, name: x, protocol: TLS}, tls: {mode: PASSTHROUGH}}"),
		"its name":                                   gateway("{hosts: [shop.test], port: {number: 80, name: x, protocol: HTTP}}"),
		"a pattern over its name":                    gateway("{hosts: ['*.test'], port: {number: 80, name: x, protocol: HTTP}}"),
		"its name redirected":                        gateway("{hosts: [shop.test], port: {number: 80, name: x, protocol: HTTP}, tls: {httpsRedirect: true}}"),
		"its name, by its Gateway":                   routes("shop.test", "team-a/front"),
		"a pattern over it, by its Gateway":          routes("'*.test'", "team-a/front"),
		"a pattern over it, by another":              gateway("{hosts: ['*'], port: {number: 80, name: x, protocol: HTTP}}") + "---\n" + routes("'*.test'", "g"),
		"its name, by another":                       gateway("{hosts: ['*'], port: {number: 80, name: x, protocol: HTTP}}") + "---\n" + routes("shop.test", "g"),
		"a selector of its Service's": gateway("{hosts: ['*'], port: {number: 9999, name: x, protocol: TCP}}") +
			"---\napiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: h, namespace: team-b}\nspec: {selector: {app: a}, servers: []}\n",
	} {
		t.Run(what, func(t *testing.T) {
			cfg := mesh.Default()
			r := registry.New(&cfg)
			apply := func(text string, created int64) map[string]string {
				read := decode.File("objects.yaml", []byte(text))
				for _, f := range read.Findings {
					t.Fatal(f)
				}
				var changes []config.Change
				for i := range read.Objects {
					read.Objects[i].Created = time.Unix(created, 0)
					changes = append(changes, config.Change{Key: read.Objects[i].Key, Object: &read.Objects[i]})
				}
				s, _ := r.Apply(changes)
				out := map[string]string{}
				wholes(s, out)
				return out
			}
			was := apply(ours+open, 1_600_000_000)
			is := apply(text, 1_500_000_000)
			for key := range is {
				if _, there := was[key]; !there {
					delete(is, key)
				}
			}
			if d := cmp.Diff(was, is); d != "" {
				t.Error(d)
			}
		})
	}
}
