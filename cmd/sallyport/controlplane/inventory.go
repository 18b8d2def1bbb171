package controlplane

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// inventory is the objects that stand, for those who ask beside the registry: who is a pod, what is a namespace
// labelled, how does an object get on with the others. Its methods may be called at the same time.
type inventory struct {
	mu      sync.RWMutex
	objects config.ByKey[*config.Object]
	at      addresses // of pods
	chosen  chosen    // which ServiceEntries select workloads, and who of them has to be looked at again
	// spread is set when a namespace came or went, or the trust bundle changed, since it was last taken: either way the
	// bundle is to be spread again.
	spread signal
	// moves counts the changes of what EgressPolicies are judged by.
	moves atomic.Uint64
}

// signal holds that something happened, however often.
type signal chan struct{}

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func newInventory() *inventory {
	return &inventory{spread: make(signal, 1), chosen: newChosen()}
}

// apply takes changes, and gives the labels of the pods, by POD.NAMESPACE, that have others now.
func (v *inventory) apply(changes []config.Change) (relabelled map[string]map[string]string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range changes {
		old := v.objects.Get(c.Key)
		if c.Object == nil {
			v.objects.Delete(c.Key)
		} else {
			v.objects.Put(c.Key, c.Object)
		}
		if judgesPolicies(c.Key.Kind) {
			v.moves.Add(1)
		}
		v.chosen.note(c.Key, old, c.Object)
		if c.Key.Kind == config.KindPod {
			v.at.replace(old, c.Object)
		}
		if c.Key.Kind == config.KindPod && old != nil && c.Object != nil && !maps.Equal(old.Labels, c.Object.Labels) {
			if relabelled == nil {
				relabelled = map[string]map[string]string{}
			}
			relabelled[c.Key.Name+"."+c.Key.Namespace] = c.Object.Labels
		}
		if c.Key.Kind == config.KindNamespace && (old != nil) != (c.Object != nil) {
			v.spread.set()
		}
	}
	return relabelled
}

func (v *inventory) get(k config.Key) *config.Object {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.objects.Get(k)
}

// of gives the objects of a kind in a namespace, "" for all; in no order.
func (v *inventory) of(kind config.Kind, namespace string) (out []*config.Object) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	list := v.objects.In(kind, namespace)
	if namespace == "" {
		list = v.objects.Of(kind)
	}
	for _, o := range list {
		out = append(out, o)
	}
	return out
}

// revision is an object's, "" of none.
func (v *inventory) revision(k config.Key) string {
	if o := v.get(k); o != nil {
		return o.Revision
	}
	return ""
}

// Pod implements workload.Pods.
func (v *inventory) Pod(namespace, name string) (labels map[string]string, account string, ips []string, ok bool) {
	o := v.get(config.Key{Kind: config.KindPod, Namespace: namespace, Name: name})
	if o == nil {
		return nil, "", nil, false
	}
	pod := o.Spec.(*corev1.Pod)
	return o.Labels, pod.Spec.ServiceAccountName, podIPs(pod), true
}

// nodeOf is the node that a pod is on; "" where nobody knows.
func (v *inventory) nodeOf(namespace, name string) string {
	if o := v.get(config.Key{Kind: config.KindPod, Namespace: namespace, Name: name}); o != nil {
		return o.Spec.(*corev1.Pod).Spec.NodeName
	}
	return ""
}

// namespaceNames are those of all namespaces, sorted.
func (v *inventory) namespaceNames() []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []string
	for k := range v.objects.Of(config.KindNamespace) {
		out = append(out, k.Name)
	}
	slices.Sort(out)
	return out
}

// check says what an object that is about to be written would not do although it seems to, given the others. Its cost
// is that of the objects that have to do with it, and a look at the others.
func (v *inventory) check(o config.Object, cfg mesh.Config) []admission.Finding {
	all := []config.Object{o}
	counts := countsFor(o)
	v.mu.RLock()
	for _, other := range v.objects.All() {
		if other.Key != o.Key && counts(other) {
			all = append(all, *other)
		}
	}
	v.mu.RUnlock()
	return admission.CheckOf(all, cfg, o.Key)
}

// countsFor tells the objects that admission.Check looks at for what it says of o. They are all of the kinds that
// others refer to; but of ServiceEntries, where o is one, those that share a host or an address with it. Who is selected, and what
// is asked before, is looked at for policies only, and who takes what TLS for DestinationRules that say of it something else than the mesh does.
func countsFor(o config.Object) func(other *config.Object) bool {
	entry, isEntry := o.Spec.(*networking.ServiceEntry)
	hosts, addresses := map[string]bool{}, map[string]bool{}
	for _, h := range entry.GetHosts() {
		hosts[registry.CanonicalHost(h)] = true
	}
	for _, a := range entry.GetAddresses() {
		addresses[a] = true
	}
	choosesBy := len(entry.GetWorkloadSelector().GetLabels()) > 0
	delegates := map[config.Key]bool{}
	routes, _ := o.Spec.(*networking.VirtualService)
	for _, h := range routes.GetHttp() {
		if h.Delegate != nil {
			delegates[route.DelegateKey(h.Delegate, o.Namespace)] = true
		}
	}
	isDelegate := routes != nil && len(routes.Hosts) == 0
	led, ofPatterns := map[string]bool{}, false // at Gateways, where other namespaces may have the names
	for _, h := range routes.GetHosts() {
		led[registry.CanonicalHost(h)], ofPatterns = true, ofPatterns || strings.HasPrefix(h, "*")
	}
	atGateways := func(v *networking.VirtualService) bool {
		return slices.ContainsFunc(v.GetGateways(), func(g string) bool { return g != route.Mesh })
	}
	bound := atGateways(routes)
	claims := admission.AsksClaims(routes)
	rule, isRule := o.Spec.(*networking.DestinationRule)
	otherTLS, reached := admission.SpeaksOtherTLS(rule), podsReached(&o, rule)
	otherHas := func(other *config.Object) bool {
		v, is := other.Spec.(*networking.VirtualService)
		return is && atGateways(v) && (ofPatterns || leadsOne(v, led))
	}
	policy, isPolicy := o.Spec.(*security.AuthorizationPolicy)
	custom := policy.GetAction() == security.AuthorizationPolicy_CUSTOM
	return func(other *config.Object) bool {
		same := o.Key.Kind == other.Key.Kind && o.Namespace == other.Key.Namespace
		switch other.Key.Kind {
		case config.KindNamespace, config.KindService, config.KindGateway, config.KindDestinationRule:
			return true
		case config.KindKubeGateway: // a policy's target, or that of a Service which is, or of its target's class; an egress gateway's Service
			return isPolicy || isRule || claims || o.Key.Kind == config.KindRequestAuthentication
		case config.KindPod, config.KindWorkloadEntry: // who is selected, and who is spoken to
			return selects(o.Key.Kind) || choosesBy || claims || otherTLS && reached(other.Namespace) ||
				o.Namespace == other.Namespace && (o.Kind == config.KindService || o.Kind == config.KindWorkloadEntry)
		case config.KindPeerAuthentication: // of several for one workload the oldest counts; what those take who are spoken to
			return same || otherTLS
		case config.KindEgressPolicy, config.KindSidecar, config.KindTelemetry: // of the others, of several for one workload the oldest counts
			return same || isPolicy && other.Key.Kind == config.KindSidecar && o.Namespace == other.Namespace // which says how its pods read ports
		case config.KindRequestAuthentication: // by whom tokens are verified; how many sets of keys a namespace has
			return isPolicy || claims || same
		case config.KindAuthorizationPolicy: // a proxy asks one provider
			p, is := other.Spec.(*security.AuthorizationPolicy)
			return custom && is && p.Action == security.AuthorizationPolicy_CUSTOM
		case config.KindVirtualService: // of several for one host the oldest leads; a delegate may be of any namespace, and who delegates; where requests are led a rule's TLS counts, and they may be led away from plain text
			return isRule || same || isEntry && leadsOne(other.Spec.(*networking.VirtualService), hosts) || o.Key.Kind == other.Key.Kind && (isDelegate || delegates[other.Key]) || bound && otherHas(other)
		case config.KindServiceEntry:
			spec := other.Spec.(*networking.ServiceEntry)
			return !isEntry || slices.ContainsFunc(spec.Hosts, func(h string) bool { return hosts[registry.CanonicalHost(h)] }) ||
				slices.ContainsFunc(spec.Addresses, func(a string) bool { return addresses[a] })
		default:
			return false
		}
	}
}

// leadsOne says whether routes may be for one of some hosts.
func leadsOne(v *networking.VirtualService, hosts map[string]bool) bool {
	return slices.ContainsFunc(v.Hosts, func(h string) bool { return strings.HasPrefix(h, "*") || hosts[registry.CanonicalHost(h)] })
}

// podsReached tells the namespaces whose pods a DestinationRule is about: that of the Service that it is for, or all.
func podsReached(o *config.Object, rule *networking.DestinationRule) func(namespace string) bool {
	name := registry.CanonicalHost(rule.GetHost())
	if !strings.ContainsAny(name, ".*") {
		name = registry.Ref{Namespace: o.Namespace, Name: name}.Host()
	}
	ref, isService := registry.RefOf(name)
	return func(namespace string) bool { return !isService || namespace == ref.Namespace }
}

// selects says whether objects of a kind are for workloads that they choose by labels.
func selects(kind config.Kind) bool {
	switch kind {
	case config.KindEgressPolicy, config.KindAuthorizationPolicy, config.KindRequestAuthentication, config.KindPeerAuthentication, config.KindTelemetry, config.KindSidecar:
		return true
	}
	return false
}
