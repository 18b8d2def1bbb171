package admission

import (
	"iter"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/tokens"
)

// clusterDomain ends the names of Kubernetes Services.
const clusterDomain = "svc.cluster.local"

// world is all objects, indexed for the checks.
type world struct {
	cfg          mesh.Config
	now          time.Time
	objects      []config.Object // by key, each once
	entries      []*entry        // by key
	hosts        map[host.Name][]*entry
	index        hostIndex                     // of all of them; made when it is asked for
	wildcards    []host.Name                   // those among hosts, sorted
	services     map[host.Name]bool            // without those that are other names of hosts
	specs        map[host.Name]*corev1.Service // of all Services
	gatewayHosts map[host.Name]bool            // the Services of gateways; made when it is asked for
	secrets      map[string]bool               // "namespace/name", and "namespace/" of each that has one
	namespaces   map[string]config.Object
	gateways     map[string]*config.Object           // by "namespace/name"
	servers      map[string][]registry.GatewayServer // of those; made when they are asked for
	kubeGateways map[config.Key]config.Object
	classes      map[gatewayv1.ObjectName]config.Object
	rules        map[host.Name][]*config.Object             // the DestinationRules
	rootAsksTLS  bool                                       // one of the root namespace asks for TLS
	policies     map[string][]*policy                       // of a namespace, in the order in which they are asked
	workloads    map[string][]workload                      // of a namespace
	ledRequests  map[host.Name][]uint32                     // where routes of requests lead to: ports, 0 for any; made when it is asked for
	virtual      map[config.Key]*config.Object              // the VirtualServices
	ledBy        map[host.Name][]*networking.VirtualService // by the hosts that they name; made when it is asked for, as the next
	securedIn    map[string]map[host.Name]bool              // of a namespace: the hosts outside that have a port of TLS
	exportsTo    map[string][]string                        // of a namespace: those that it exports entries to by name, in order; made when it is asked for
	keySets      map[string]map[config.Key]bool             // of a namespace: the sets of keys that are fetched for objects that were judged
	headless     map[string]map[string]*config.Object       // of a namespace: its Services without addresses, by name
	podAddresses map[string]map[string]bool                 // of a namespace
	exitServices []serviceOfGateway                         // made when they are asked for, as the next
	exitHosts    map[host.Name]bool                         // made when it is asked for
	ingressFound []serviceOfGateway
	leadingIn    map[string][]*config.Object // of a namespace: its pods, and what leads to their ports; made when it is asked for, as the next
	selectorsIn  map[string]Selectors        // of a namespace
	labelledIn   map[string]labelled         // of a namespace
	networks     map[string]bool             // that something names
	snapshot     *registry.Snapshot          // made when it is asked for
	ledWorld     *registry.Snapshot          // likewise
	proxiesOf    map[string]gatewayProxies   // of Gateways, found when they are asked for
	ports        int                         // of all hosts; made when it is asked for
	custom       []*authz.Policy             // those that have a provider asked

	aliasesBeyond map[config.Key]bool             // Services that are one name too many for a host; made when it is asked for, as the next
	delegating    map[config.Key][]*config.Object // by a delegate: the VirtualServices that delegate to it
	beyond        map[config.Key]beyond           // by a VirtualService: which of its delegates are left out

	authentications map[string][]*config.Object         // of a namespace: its PeerAuthentications
	authenticated   *registry.Snapshot                  // what they come to; made when it is asked for
	verifying       map[string][]*tokens.Authentication // of a namespace: its RequestAuthentications that have rules
}

// entry is a ServiceEntry with what is derived from it.
type entry struct {
	object   config.Object
	spec     *networking.ServiceEntry
	names    []host.Name
	exportTo []string // without "."; the mesh's default filled in
}

func survey(objs []config.Object, cfg mesh.Config) (*world, []Finding) {
	objects, findings := sorted(objs)
	w := &world{
		cfg: cfg, objects: objects,
		hosts: map[host.Name][]*entry{}, services: map[host.Name]bool{}, specs: map[host.Name]*corev1.Service{}, gateways: map[string]*config.Object{}, kubeGateways: map[config.Key]config.Object{}, classes: map[gatewayv1.ObjectName]config.Object{},
		keySets: map[string]map[config.Key]bool{}, virtual: map[config.Key]*config.Object{},
		headless: map[string]map[string]*config.Object{}, podAddresses: map[string]map[string]bool{},
		policies: map[string][]*policy{}, workloads: map[string][]workload{},
		secrets: map[string]bool{}, namespaces: map[string]config.Object{}, rules: map[host.Name][]*config.Object{}, authentications: map[string][]*config.Object{}, verifying: map[string][]*tokens.Authentication{},
	}
	for i, o := range objects {
		switch spec := o.Spec.(type) {
		case *v1alpha1.EgressPolicy:
			w.addPolicy(o, spec)
		case *corev1.Pod:
			w.addWorkload(o, o.Labels, spec.Spec.ServiceAccountName)
			w.addAddresses(o.Namespace, spec)
		case *networking.WorkloadEntry:
			w.addWorkloadEntry(o, spec)
		case *networking.ServiceEntry:
			w.addEntry(o, spec)
		case *networking.DestinationRule:
			n := w.fullName(spec.Host, o.Namespace)
			w.rules[n] = append(w.rules[n], &objects[i])
			w.rootAsksTLS = w.rootAsksTLS || o.Namespace == cfg.RootNamespace && setsTLS(spec)
		case *gatewayv1.GatewaySpec:
			w.kubeGateways[o.Key] = o
		case *gatewayv1.GatewayClassSpec:
			w.classes[gatewayv1.ObjectName(o.Name)] = o
		case *networking.VirtualService:
			w.virtual[o.Key] = &objects[i]
		case *security.PeerAuthentication:
			w.authentications[o.Namespace] = append(w.authentications[o.Namespace], &objects[i])
		case *security.RequestAuthentication:
			w.addVerifying(&objects[i], spec)
		case *security.AuthorizationPolicy:
			if spec.Action == security.AuthorizationPolicy_CUSTOM {
				w.custom = append(w.custom, authz.FromSpec(&objects[i], spec))
			}
		case *networking.Gateway:
			w.gateways[o.Namespace+"/"+o.Name] = &objects[i]
		case *corev1.Service:
			n := host.Name(o.Name + "." + o.Namespace + "." + clusterDomain)
			if w.specs[n] = spec; otherName(spec) == "" {
				w.services[n] = true
			}
			w.addHeadless(&objects[i])
		case *corev1.Secret:
			w.secrets[o.Namespace+"/"+o.Name], w.secrets[o.Namespace+"/"] = true, true
		case *corev1.Namespace:
			w.namespaces[o.Name] = o
		}
	}
	slices.Sort(w.wildcards)
	for _, list := range w.policies {
		slices.SortFunc(list, func(a, b *policy) int { return a.asked.Compare(b.asked) })
	}
	return w, findings
}

func (w *world) addHeadless(o *config.Object) {
	if !IsHeadless(o) {
		return
	}
	if w.headless[o.Namespace] == nil {
		w.headless[o.Namespace] = map[string]*config.Object{}
	}
	w.headless[o.Namespace][o.Name] = o
}

func (w *world) addAddresses(namespace string, pod *corev1.Pod) {
	if w.podAddresses[namespace] == nil {
		w.podAddresses[namespace] = map[string]bool{}
	}
	in := w.podAddresses[namespace]
	in[pod.Status.PodIP] = true
	for _, ip := range pod.Status.PodIPs {
		in[ip.IP] = true
	}
}

func (w *world) addEntry(o config.Object, spec *networking.ServiceEntry) {
	e := &entry{object: o, spec: spec}
	for _, h := range spec.Hosts {
		n, err := host.Parse(h)
		if err != nil || slices.Contains(e.names, n) {
			continue
		}
		e.names = append(e.names, n)
		if n.IsWildcard() && w.hosts[n] == nil {
			w.wildcards = append(w.wildcards, n)
		}
		w.hosts[n] = append(w.hosts[n], e)
	}
	exports := spec.ExportTo
	if len(exports) == 0 {
		exports = w.cfg.DefaultServiceEntryExportTo
	}
	for _, x := range exports {
		if x == "." {
			x = o.Namespace
		}
		e.exportTo = append(e.exportTo, x)
	}
	w.entries = append(w.entries, e)
}

// visibleIn says whether workloads of that namespace may use the entry. "*" asks for every namespace.
func (e *entry) visibleIn(namespace string) bool {
	return slices.Contains(e.exportTo, "*") || slices.Contains(e.exportTo, namespace)
}

func (e *entry) external() bool {
	return e.spec.Location == networking.ServiceEntry_MESH_EXTERNAL
}

// fullName completes a Service's short name with the object's namespace, as Istio does.
func (w *world) fullName(name, namespace string) host.Name {
	n, err := host.Parse(name)
	if err != nil {
		return host.Name(name)
	}
	if !n.IsWildcard() && !strings.Contains(string(n), ".") {
		return host.Name(string(n) + "." + namespace + "." + clusterDomain)
	}
	return n
}

// rulesFor walks the DestinationRules that are for the host.
func (w *world) rulesFor(n host.Name) iter.Seq[*networking.DestinationRule] {
	return func(yield func(*networking.DestinationRule) bool) {
		for _, rule := range w.rules[n] {
			if !yield(rule.Spec.(*networking.DestinationRule)) {
				return
			}
		}
		for _, wide := range append(parents(n), host.Any) {
			if wide == n {
				continue
			}
			for _, rule := range w.rules[wide] {
				if !yield(rule.Spec.(*networking.DestinationRule)) {
					return
				}
			}
		}
	}
}

// registered says whether some ServiceEntry or Service has a host that n stands for or belongs to.
func (w *world) registered(n host.Name) bool {
	if w.hosts[n] != nil || w.services[n] {
		return true
	}
	for _, p := range w.wildcards {
		if host.Overlap(p, n) {
			return true
		}
	}
	if !n.IsWildcard() {
		return false
	}
	for h := range w.hosts {
		if host.Matches(n, h) {
			return true
		}
	}
	for h := range w.services {
		if host.Matches(n, h) {
			return true
		}
	}
	return false
}
