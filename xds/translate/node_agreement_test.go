package translate_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/translate/interpret"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestNodesAgreeWithSidecars holds, in random worlds, what a node's proxy does with what a pod sends against what the pod's sidecar would do.
func TestNodesAgreeWithSidecars(t *testing.T) {
	d := newDecoder()
	same := 0
	for seed := *firstWorld; seed < *firstWorld+max(*worlds/4, 3); seed++ {
		w, try := randomWorld(seed)
		holdAgreementIn(t, d, seed, w, try, func(e *envoys, w world, x tried) (disagreement, bool) {
			found, differ, compared := disagreeAtNode(e, w, x)
			if compared {
				same++
			}
			return found, differ
		})
	}
	if same < 100 {
		t.Errorf("%d attempts were compared", same)
	}
}

func disagreeAtNode(e *envoys, w world, x tried) (found disagreement, differ, compared bool) {
	if x.Port == wire.InboundPort || translate.UnsupportedPod(e.snapshot, x.from.Namespace, x.from.Labels) != "" { // that port's listener is another one of a sidecar's
		return found, false, false
	}
	if shortAt(e.snapshot, x) { // that of its own namespace's Service to sidecars alone
		return found, false, false
	}
	account := cmp.Or(x.from.Account, "app")
	identity := "spiffe://" + e.snapshot.Mesh.TrustDomain + "/ns/" + x.from.Namespace + "/sa/" + account
	view, sidecar := e.node(translate.Node{ID: "sidecar~10.244.0.9~p.n~n.svc.cluster.local", Namespace: x.from.Namespace, Account: account, Labels: x.from.Labels, IPv6: true, Ends: true, Reconnects: true}, identity)
	ip, ok := resolver{view, e, x}.address(x.Host)
	if !ok {
		return found, false, false
	}
	c := interpret.Connection{To: netip.AddrPortFrom(ip, uint16(x.Port)), Through: wire.OutboundPort, Redirected: true, From: podAddress, At: x.At, Bytes: x.bytes(), Chance: x.chance}
	want, err := sidecar.Connect(c)
	if err != nil {
		return disagreement{world: w, x: x, steps: want.Steps, err: err}, true, false
	}
	c.Bytes = x.bytes()
	got, err := e.nodeOf(x.from.Namespace, identity).Connect(c)
	a, b := passes(want, x.from.Namespace), passes(got, x.from.Namespace)
	if e.snapshot.Different(x.from.Namespace) && !e.snapshot.TablesAtNodes(x.from.Namespace) && strings.Contains(b, "block_all") {
		return found, false, false // what others export to it by name is not there (ADR 85)
	}
	if err == nil && a != b {
		err = fmt.Errorf("the sidecar: %s\nthe node: %s", a, b)
	}
	return disagreement{world: w, x: x, steps: append(want.Steps, got.Steps...), err: err}, err != nil, true
}

// TestNodesKnowNamespacesOwnAliases: another name of a Service that its namespace keeps to itself leads where it leads at a sidecar, and not around what counts for the Service.
func TestNodesKnowNamespacesOwnAliases(t *testing.T) {
	const objects = `apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {istio.io/dataplane-mode: ambient}}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: default, annotations: {networking.istio.io/exportTo: .}}
spec: {type: ExternalName, externalName: api.store.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: store}
spec: {clusterIP: 10.0.3.168, ports: [{name: http, port: 80}]}
`
	w := world{objects: map[config.Key]*config.Object{}, mesh: mesh.Default()}
	for _, c := range changedBy(t, objects) {
		w.objects[c.Key] = c.Object
	}
	x := tried{from: policy.Workload{Namespace: "default", Name: "app"}, as: "api.default.svc.cluster.local"}
	x.Scheme, x.Host, x.Port = policy.HTTP, x.as, 80
	found, differ, compared := disagreeAtNode(w.envoys(newDecoder()), w, x)
	if differ || !compared {
		t.Errorf("compared: %v; %v\n%s", compared, found.err, strings.Join(found.steps, "\n"))
	}
}

// shortAt says whether an attempt is to a Service of its own namespace by a short name: "web", or "db-0.web" of a headless one.
func shortAt(s *registry.Snapshot, x tried) bool {
	pod, name, two := strings.Cut(strings.ToLower(x.Host), ".")
	if !two {
		return true
	}
	return pod != "" && slices.ContainsFunc(s.Services(registry.Ref{Namespace: x.from.Namespace, Name: name}.Host()), (*registry.Service).Headless)
}

// passes is what becomes of a connection, as far as the proxy that it leaves by decides.
func passes(out interpret.Outcome, namespace string) string {
	text := fmt.Sprintf("closed %t", out.Closed != "")
	if u := out.Upstream; u != nil {
		text += fmt.Sprintf(", to %s %v", strings.Replace(u.Cluster, "own."+namespace+".", "", 1), u.Addresses)
		if u.Bytes.Hello != nil {
			text += fmt.Sprintf(" for %s as %v", u.Bytes.Hello.SNI, u.Bytes.Hello.Peer)
		}
	}
	if r := out.Response; r != nil {
		text += fmt.Sprintf(", answered %d %s", r.Status, r.Details)
	}
	for _, e := range out.Entries {
		text += fmt.Sprintf(", logged by route %s %s, policy %s", e.Route, e.Tags[wire.TagRoute], e.Tags[wire.TagPolicy])
	}
	return text
}

// nodeOf is the proxy of a node with one pod of a namespace, whose listener its agent opened.
func (e *envoys) nodeOf(namespace, identity string) *interpret.Proxy {
	n := translate.Node{ID: "ztunnel~10.0.0.1~node.istio-system~istio-system.svc.cluster.local", Namespace: "istio-system", IPv6: true, Serves: namespace, OwnTables: true}
	g := governed{translate.Classify(e.snapshot, n), translate.PolicedBy(e.snapshot, n), identity}
	if p := e.proxies[g]; p != nil {
		return p
	}
	view := build(e.made, e.snapshot, g.Class, e.views)
	template := ambient.PodOutbound
	if translate.HasOwnTables(e.snapshot, namespace) {
		template = ambient.OutboundOf(namespace)
	}
	var all []interpret.Resource
	for _, r := range append(e.decoded(view), e.decoded(translate.BuildPolicies(e.snapshot, g.PolicyClass))...) {
		if ambient.Template(r.Name) != "" {
			if r.Name != template { // of other pods, or what comes
				continue
			}
			l := proto.CloneOf(r.Message.(*listenerv3.Listener))
			said, err := structpb.NewStruct(map[string]any{ambient.Identity: identity, ambient.Network: "/n", ambient.Name: namespace + "/pod"})
			must(err)
			l.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{ambient.MetadataKey: said}}
			r.Message = l
		}
		all = append(all, r)
	}
	p, err := interpret.New(all, []string{identity}, e.seen)
	must(err)
	e.proxies[g] = p
	return p
}
