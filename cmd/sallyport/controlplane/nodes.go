package controlplane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"istio.io/api/annotation"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/workload"
	"github.com/sallyport/sallyport/xds/translate"
)

// nodes is which pods run where, and which namespaces are in the mesh without sidecars. Whoever asks may do so at the same time.
type nodes struct {
	root       func() string // the mesh's root namespace
	mu         sync.RWMutex
	pods       map[string]map[config.Key]*config.Object // by node
	at         map[config.Key]string                    // a pod's node
	namespaces map[string]string                        // by name: the value of ambient.Label
	again      map[string]bool                          // nodes whose pods are looked at again after a time
}

func newNodes(root func() string) *nodes {
	return &nodes{root: root, pods: map[string]map[config.Key]*config.Object{}, at: map[config.Key]string{}, namespaces: map[string]string{}, again: map[string]bool{}}
}

// apply takes changes, and gives the nodes on which pods came, went or changed, or are in the mesh now and were not, or the reverse.
func (n *nodes) apply(changes []config.Change) map[string]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	moved := map[string]bool{}
	for _, c := range changes {
		switch c.Key.Kind {
		case config.KindPod:
			moved[n.at[c.Key]] = true
			n.replace(c.Key, c.Object)
			moved[n.at[c.Key]] = true
		case config.KindNamespace:
			n.label(c, moved)
		}
	}
	delete(moved, "") // on no node
	return moved
}

// label notes what a namespace's label says, and on which nodes that makes a difference.
func (n *nodes) label(c config.Change, moved map[string]bool) {
	mode := ""
	if c.Object != nil {
		mode = c.Object.Labels[ambient.Label]
	}
	if n.namespaces[c.Key.Name] == mode {
		return
	}
	if n.namespaces[c.Key.Name] = mode; mode == "" {
		delete(n.namespaces, c.Key.Name)
	}
	for pod, node := range n.at {
		if pod.Namespace == c.Key.Name {
			moved[node] = true
		}
	}
}

func (n *nodes) replace(key config.Key, now *config.Object) {
	if was, ok := n.at[key]; ok {
		delete(n.at, key)
		if delete(n.pods[was], key); len(n.pods[was]) == 0 {
			delete(n.pods, was)
		}
	}
	if now == nil {
		return
	}
	on := now.Spec.(*corev1.Pod).Spec.NodeName
	if on == "" {
		return
	}
	if n.pods[on] == nil {
		n.pods[on] = map[config.Key]*config.Object{}
	}
	n.pods[on][key], n.at[key] = now, on
}

// on are the pods of a node that have a network of their own, in order.
func (n *nodes) on(node string) []*config.Object {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var out []*config.Object
	for _, o := range n.pods[node] {
		if !o.Spec.(*corev1.Pod).Spec.HostNetwork && running(o) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *config.Object) int { return a.Key.Compare(b.Key) })
	return out
}

// inMesh says whether a pod asks for the proxy of its node. One with a sidecar is in the mesh by that, and nobody of the system is.
func (n *nodes) inMesh(o *config.Object) bool {
	if _, sidecar := o.Annotations[annotation.SidecarStatus.Name]; sidecar || o.Namespace == n.root() || slices.Contains(registry.SystemNamespaces, o.Namespace) {
		return false
	}
	if mode := o.Labels[ambient.Label]; mode != "" {
		return mode == ambient.In
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.namespaces[o.Namespace] == ambient.In
}

// serves finds a pod in the mesh with that identity that runs on the node, by its name where several do; nil if none does.
func (n *nodes) serves(node string, id identity.ID, name string) (found *config.Object) {
	for _, o := range n.on(node) {
		if isOf(o, id) && n.inMesh(o) && (found == nil || o.Name == name) {
			found = o
		}
	}
	return found
}

// pod finds one that runs on a node; nil if it does not.
func (n *nodes) pod(node string, key config.Key) *config.Object {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.pods[node][key]
}

// of are the nodes that pods of an account run on.
func (n *nodes) of(id identity.ID) (out []string) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for node, pods := range n.pods {
		for _, o := range pods {
			if isOf(o, id) {
				out = append(out, node)
				break
			}
		}
	}
	slices.Sort(out)
	return out
}

// podsOn has the shape that serve.Cache follows.
func (p *plane) podsOn(node string) (out []ambient.Pod) {
	s := p.snapshot.Load()
	for _, o := range p.nodes.on(node) {
		id := identity.ID{TrustDomain: s.Mesh.TrustDomain, Namespace: o.Namespace, ServiceAccount: account(o)}
		pod := o.Spec.(*corev1.Pod)
		one := ambient.Pod{
			Namespace: o.Namespace, Name: o.Name, UID: string(pod.UID), Account: id.ServiceAccount, Identity: id.String(), Addresses: podIPs(pod),
			In: p.nodes.inMesh(o),
		}
		if one.In {
			one.Why, one.Unprobed = translate.UnsupportedPod(s, o.Namespace, o.Labels), strictProbe(s, o, pod)
			one.Probed, one.BlockQUIC = probedPorts(pod), !s.AllowAny(s.Scope(o.Namespace, o.Labels))
			if translate.HasOwnTables(s, o.Namespace) {
				one.Outbound = ambient.OutboundOf(o.Namespace)
			}
			var after time.Duration
			if one.Templates, after = p.podListeners.Of(s, one.Key(), o.Namespace, o.Labels); after > 0 {
				p.nodes.later(node, after, func() { p.cache.PodsChanged(map[string]bool{node: true}) })
			}
		}
		out = append(out, one)
	}
	return out
}

// later does something about a node's pods after a time, and once however often that is asked for until then.
func (n *nodes) later(node string, after time.Duration, do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.again[node] {
		return
	}
	n.again[node] = true
	time.AfterFunc(after, func() {
		n.mu.Lock()
		delete(n.again, node)
		n.mu.Unlock()
		do()
	})
}

// nodeAgent says whether an account is that of agents of nodes.
func (p *plane) nodeAgent(id identity.ID) bool {
	return slices.Contains(p.snapshot.Load().Mesh.NodeAgents, id.Namespace+"/"+id.ServiceAccount)
}

// errNoAgent is what others read that say they are a node's proxy.
const errNoAgent = "xds: %s may not be the proxy of a node: its account is none of sallyport.nodeAgents in the mesh's settings"

// nodeOf finds the node that a caller with a node's proxy's id is on: where its pod runs.
func (p *plane) nodeOf(id identity.ID, nodeID string) (string, error) {
	if !p.nodeAgent(id) {
		return "", status.Errorf(codes.PermissionDenied, errNoAgent, id)
	}
	pod, err := workload.PodOf(nodeID)
	if err != nil {
		return "", status.Errorf(codes.InvalidArgument, "xds: node id %q: %v", nodeID, err)
	}
	return p.nodes.ofAgent(id, pod)
}

// ofAgent finds the node that a pod of an account runs on.
func (n *nodes) ofAgent(id identity.ID, pod string) (string, error) {
	key := config.Key{Kind: config.KindPod, Namespace: id.Namespace, Name: pod}
	n.mu.RLock()
	defer n.mu.RUnlock()
	on := n.at[key]
	if on == "" {
		return "", status.Errorf(codes.Unavailable, "xds: which node the pod %s/%s runs on is not known (yet)", id.Namespace, pod)
	}
	if o := n.pods[on][key]; !isOf(o, id) {
		return "", status.Errorf(codes.PermissionDenied, "xds: %s may not be the pod %s/%s: that is %s's", id, id.Namespace, pod, account(o))
	}
	return on, nil
}

// handsIn says whether a record of a node's proxy is one that its reporter's predecessor on the node left: the caller's token is of a node's
// agent, and the record names another pod of that account, which ran on the same node as far as anybody knows.
func (p *plane) handsIn(id identity.ID, of identity.Pod, proxy string) bool {
	if of.Name == "" || !strings.HasPrefix(proxy, ambient.ProxyType+"~") || !p.nodeAgent(id) {
		return false
	}
	mine, err := p.nodes.ofAgent(id, of.Name)
	if err != nil {
		return false
	}
	on, err := p.nodeOf(id, proxy)
	return on == mine || status.Code(err) == codes.Unavailable
}

// impersonate lets a node's agent have the certificates of the pods in the mesh that run on its node, and no others. The node is that of
// the pod that its token is bound to; tokens that are bound to none are those of hosts without Kubernetes, where an account's nodes are
// those of its pods.
func (p *plane) impersonate(_ context.Context, caller identity.ID, of identity.Pod, wanted identity.ID) error {
	if !p.nodeAgent(caller) {
		return fmt.Errorf("it is no agent of a node: sallyport.nodeAgents in the mesh's settings does not name it")
	}
	if wanted.TrustDomain != caller.TrustDomain {
		return fmt.Errorf("that is of another trust domain")
	}
	on := p.nodes.of(caller)
	if of.Name != "" {
		p.nodes.mu.RLock()
		on = []string{p.nodes.at[config.Key{Kind: config.KindPod, Namespace: caller.Namespace, Name: of.Name}]}
		p.nodes.mu.RUnlock()
	}
	for _, node := range on {
		if node != "" && p.nodes.serves(node, wanted, "") != nil {
			return nil
		}
	}
	return fmt.Errorf("no pod of that account that is in the mesh runs on its node (%s)", strings.Join(on, ", "))
}

// stampOfPod says of a record of a node's proxy whose it is: of a pod in the mesh that runs on that node, or of what came to one. It is
// false for records of other proxies, and for what nobody's pod is behind, of which the agent's own word counts.
func (p *plane) stampOfPod(r *record.Record, id identity.ID, of identity.Pod, to record.Workload) bool {
	if !strings.HasPrefix(r.Proxy, ambient.ProxyType+"~") || !p.nodeAgent(id) {
		return false
	}
	on, err := p.nodeOf(id, r.Proxy)
	if status.Code(err) == codes.Unavailable && of.Name != "" { // its pod is gone, and another agent of the node hands in what it left
		on, err = p.nodes.ofAgent(id, of.Name)
	}
	if err != nil {
		return false
	}
	if r.Reporter == record.ReporterDestination {
		return p.stampToPod(r, on, config.Key{Kind: config.KindPod, Namespace: to.Namespace, Name: to.Name})
	}
	whose, err := identity.ParseID(r.Workload.Principal)
	if err != nil || whose == id {
		return false
	}
	pod := p.nodes.serves(on, whose, r.Workload.Name)
	if pod == nil { // it is gone, or was never there: then its identity is no more than a claim
		r.Claim = r.Workload.Principal
		return false
	}
	r.Workload = record.Workload{Principal: whose.String(), Namespace: whose.Namespace, ServiceAccount: whose.ServiceAccount, Name: pod.Name}
	label(r, &r.Workload, "workload.labels", pod.Labels)
	if p.cluster != nil {
		p.enrich(r, whose)
	}
	return true
}

// stampToPod is that of what came to a pod: the pod's is the destination, and whom the node's proxy saw come is a claim.
func (p *plane) stampToPod(r *record.Record, on string, key config.Key) bool {
	pod := p.nodes.pod(on, key)
	if pod == nil || !p.nodes.inMesh(pod) {
		return false
	}
	id := identity.ID{TrustDomain: p.snapshot.Load().Mesh.TrustDomain, Namespace: pod.Namespace, ServiceAccount: account(pod)}
	r.DestinationWorkload.Name = pod.Name
	p.stampDestination(r, id, &workload.Pod{Name: pod.Name, Labels: pod.Labels})
	return true
}
