package translate_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/translate/interpret"
	"github.com/sallyport/sallyport/xds/wire"
)

// besidePods is what there is beside the pods of a neighbour, in a network of pods with them.
const besidePods = `apiVersion: v1
kind: Namespace
metadata: {name: team-a, labels: {istio.io/dataplane-mode: ambient}}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
spec: {podCIDR: 10.244.0.0/16}
status: {addresses: [{type: InternalIP, address: 10.244.0.3}]}
---
apiVersion: v1
kind: Pod
metadata: {name: a-1, namespace: team-a, labels: {app: a}}
spec: {serviceAccountName: app}
status: {podIP: 10.244.0.9, phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: host-1, namespace: team-a}
spec: {serviceAccountName: app, hostNetwork: true}
status: {podIP: 10.244.0.4, phase: Running}
---
apiVersion: v1
kind: Service
metadata: {name: a, namespace: team-a}
spec: {clusterIP: 10.244.0.11, selector: {app: a}, ports: [{name: http, port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: heads, namespace: team-a}
spec: {clusterIP: None, selector: {app: a}, ports: [{name: http, port: 8081}, {name: tcp, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: heads-1, namespace: team-a, labels: {kubernetes.io/service-name: heads}}
addressType: IPv4
endpoints: [{addresses: [10.244.0.9], targetRef: {kind: Pod, namespace: team-a, name: a-1}}]
ports: [{name: http, port: 8081}, {name: tcp, port: 5432}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: outside, namespace: team-a}
spec: {hosts: [out.own.test], location: MESH_EXTERNAL, resolution: STATIC, addresses: [203.0.113.7], endpoints: [{address: 203.0.113.7}], ports: [{number: 9000, name: tcp, protocol: TCP}]}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: some, namespace: team-a}
spec: {rules: [{name: not-that, action: Deny, hosts: [closed.test]}, {name: others, action: Allow, hosts: ["*"]}]}
`

// thePrey are addresses that are not the neighbour's, whoever says so; his are the others.
var thePrey = []string{"10.244.0.9", "10.244.0.4", "10.244.0.3", "10.244.0.11", "203.0.113.7", "203.0.113.8"}

const hisAddress = "10.244.0.50"

// allFronted is a neighbour whose pods have a waypoint.
var allFronted = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-b, labels: {istio.io/dataplane-mode: ambient, istio.io/use-waypoint: waypoint}}\n---\n" + gatewayBefore("workload") + "---\n" + gatewayPods +
	"---\napiVersion: v1\nkind: Pod\nmetadata: {name: p0, namespace: team-b, labels: {app: a}}\nspec: {serviceAccountName: p}\nstatus: {podIP: " + hisAddress + ", podIPs: [{ip: " + hisAddress + "}, {ip: 10.244.0.9}], phase: Running}\n"

func gatewayBefore(what string) string {
	return "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: waypoint, namespace: team-b, labels: {istio.io/waypoint-for: " + what + "}}\nspec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}\n"
}

const gatewayPods = "apiVersion: v1\nkind: Service\nmetadata: {name: waypoint, namespace: team-b}\nspec: {clusterIP: 10.96.0.15, selector: {gateway.networking.k8s.io/gateway-name: waypoint}, ports: [{name: mesh, port: 15008}]}\n---\n" +
	"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: waypoint-1, namespace: team-b, labels: {kubernetes.io/service-name: waypoint}}\naddressType: IPv4\nports: [{name: mesh, port: 15008}]\nendpoints: [{addresses: [10.244.0.200]}]\n"

// podsNeighbour writes something of pods, or of a waypoint before them.
func podsNeighbour(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	labels := pick("", ", istio.io/use-waypoint: waypoint", ", istio.io/use-waypoint: gone", ", istio.io/use-waypoint: none", ", istio.io/dataplane-mode: none")
	switch r.IntN(5) {
	case 0:
		return "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-b, labels: {istio.io/dataplane-mode: " + pick("ambient", "none") + ", istio.io/use-waypoint: " + pick("waypoint", "gone", "none") + "}}\n"
	case 1:
		return gatewayBefore(pick("workload", "all", "service", "none", "workload"))
	case 2:
		return gatewayPods
	default:
		where := append([]string{hisAddress, "10.244.0.51"}, thePrey...)
		ip := pick(where...)
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p%d, namespace: team-b, labels: {app: a%s}}\nspec: {serviceAccountName: p%s}\nstatus: {podIP: %s, podIPs: [{ip: %s}, {ip: %s}], phase: Running}\n",
			r.IntN(4), labels, pick("", "", ", hostNetwork: true"), ip, ip, pick(where...))
	}
}

// TestPodsOfNeighboursChangeNothing holds law 9 of waypoints before pods: whatever labels and addresses the pods of a namespace have, what is sent anywhere else goes the way that
// it went, with the same verdict, and is recorded in the same words.
func TestPodsOfNeighboursChangeNothing(t *testing.T) {
	t.Parallel()
	trials := uint64(2)
	if registrytest.Raced || testing.Short() {
		trials = 1
	}
	led := 0
	for seed := range trials {
		for _, allowAny := range []bool{true, false} {
			cfg := mesh.Default()
			cfg.OutboundAllowAny = allowAny
			reg := registry.New(&cfg)
			apply := func(text string, created int64) *registry.Snapshot {
				read := decode.File("objects.yaml", []byte(text))
				for _, f := range read.Findings {
					t.Fatal(f)
				}
				var changes []config.Change
				for i := range read.Objects {
					read.Objects[i].Created = time.Unix(created, 0)
					changes = append(changes, config.Change{Key: read.Objects[i].Key, Object: &read.Objects[i]})
				}
				s, _ := reg.Apply(changes)
				return s
			}
			d := newDecoder()
			want := podsMet(t, d, apply(besidePods, 1_600_000_000))
			r := rand.New(rand.NewPCG(seed, 0))
			for step := range 10 {
				text := podsNeighbour(r)
				if step == 0 {
					text = allFronted
				}
				s := apply(text, 1_700_000_000)
				if diff := cmp.Diff(want, podsMet(t, d, s)); diff != "" {
					t.Fatalf("seed %d, ALLOW_ANY %t: after\n%s\n%s", seed, allowAny, text, diff)
				}
				for _, said := range podsTry(t, d, s, hisAddress) {
					if strings.Contains(said, "pods.") {
						led++
					}
				}
			}
		}
	}
	if led == 0 {
		t.Error("nothing went by a waypoint")
	}
}

func podsMet(t *testing.T, d *decoder, s *registry.Snapshot) map[string]string {
	out := map[string]string{}
	for _, address := range thePrey {
		for at, said := range podsTry(t, d, s, address) {
			out[at] = said
		}
	}
	return out
}

// podsTry is what becomes of what a pod of team-a sends to an address: what is decided, and what its node does.
func podsTry(t *testing.T, d *decoder, s *registry.Snapshot, address string) map[string]string {
	t.Helper()
	out, to := map[string]string{}, netip.MustParseAddr(address)
	const identity = "spiffe://cluster.local/ns/team-a/sa/app"
	e := envoysOf(d, s, nil)
	node := e.nodeOf("team-a", identity)
	w := policy.Workload{Namespace: "team-a", Name: "a-1", Account: "app", Labels: map[string]string{"app": "a"}}
	for _, port := range []uint32{80, 8080, 8081, 5432, 9000, 9999} {
		for _, x := range []struct {
			scheme policy.Scheme
			host   string
		}{{policy.HTTP, address}, {policy.HTTP, "no.such.test"}, {policy.HTTP, "closed.test"}, {policy.TLS, "no.such.test"}, {policy.TCP, address}} {
			dest := policy.Destination{Scheme: x.scheme, Host: x.host, Port: port, Dialled: to}
			v := policy.Decide(s, w, dest)
			at := fmt.Sprintf("%s://%s:%d at %s", x.scheme, x.host, port, address)
			out[at+" decided"] = fmt.Sprint(v.Allowed, v.Path, v.Cluster, v.Gateway, v.Waypoint, v.DecidedBy, v.Reason, v.Missing)
			bytes := tried{Destination: dest}.bytes()
			got, err := node.Connect(interpret.Connection{To: netip.AddrPortFrom(to, uint16(port)), Through: wire.OutboundPort, Redirected: true, From: podAddress, At: time.Unix(1_800_000_000, 0), Bytes: bytes})
			if err != nil {
				t.Fatalf("%s: %v\n%s", at, err, strings.Join(got.Steps, "\n"))
			}
			out[at+" met"] = passes(got, "team-a")
		}
	}
	return out
}
