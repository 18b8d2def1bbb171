package registry

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry/ordered"
	"github.com/sallyport/sallyport/serviceentry/tokens"
)

// Snapshot is everything that the registry knew at one moment. It is immutable and shares what did not change
// with the snapshots before it.
type Snapshot struct {
	Mesh *mesh.Config

	hosts       ordered.Map[[]*Service]         // by host; each list sorted by Service.compare
	endpoints   ordered.Map[*EndpointSet]       // of Kubernetes Services, by their hosts
	rules       ordered.Map[[]*DestinationRule] // by tailOf of their hosts
	scopes      map[string][]*SidecarScope      // by namespace, those with a selector first, and the oldest of each first
	special     map[string]int                  // namespaces that do not see just what everybody sees, with why-counts
	different   map[string]int                  // those of them where it is more than that hosts have shorter names, likewise
	reasons     map[string]map[string]int       // by whose objects those see it, and then by them, likewise
	atNodes     map[string]bool                 // those of them that have tables at nodes
	asksSecrets map[string]int                  // those whose own DestinationRules ask clients for certificates, likewise
	exits       map[Ref]int                     // gateways that services leave by, counted
	shared      map[Ref]int                     // of these, the ones that the root namespace's services leave by, counted
	kube        kubeServices
	nets        []netip.Prefix // the cluster's own networks, sorted, none within another (see networks.go)
	own         []netip.Addr   // the mesh's reserved addresses, sorted: nobody is led to them (see reservedaddresses.go)
	// credentials are the Secrets that rules may name.
	credentials map[CredentialRef]held
	// unread says that neither Secrets nor ConfigMaps are read: nobody knows what there is of them.
	unread bool
	// trusted are the ConfigMaps that are named as whom to trust.
	trusted map[config.Key]held
	// selecting are the rules that are for single workloads, by namespace.
	selecting map[string][]*DestinationRule
	virtual   ordered.Map[[]*VirtualService] // by tailOf of their hosts; each list sorted by VirtualService.compare
	// crowded are those of them with patterns that some namespaces register too many hosts below, and which these are; mostRows says what is too many.
	crowded map[config.Key]map[string]*VirtualService
	// crowdedAt are the VirtualServices that come to too much at Gateways, by the namespaces of these.
	crowdedAt map[config.Key]map[string]crowdedAt
	// crowdedRules are the rules for patterns that some namespaces register too much below, as they count for these.
	crowdedRules map[*DestinationRule]map[string]*DestinationRule
	mostRows     int
	sources      map[string][]source // sourceLabels in them, by their first pair
	gateways     map[config.Key]*Gateway
	aliases      ordered.Map[*Alias]          // by their own full names
	aliasesOf    ordered.Map[[]Ref]           // by their targets
	made         map[string]map[string]uint32 // by namespace: hosts that it sees at another slot of made-up addresses
	find         lookups
	patterns     ordered.Map[[]*Service]       // those of hosts that are wildcards, by tailOf
	policies     map[string]egresspolicy.Level // EgressPolicies, by namespace
	// fronted are the gateways' pods that say something of the proxies in front of them, by namespace.
	fronted map[string][]*frontedGateway
	// authorizing are the AuthorizationPolicies, by namespace.
	authorizing map[string]authz.Set
	// verifying are the RequestAuthentications, by namespace.
	verifying   map[string]tokens.Set
	namespaces  map[string]map[string]string          // their labels
	peerAuths   map[string][]*PeerAuth                // PeerAuthentications, by namespace, the oldest first
	telemetries map[string][]*Telemetry               // Telemetries, by namespace, the oldest first
	people      map[string][]LabeledWorkload          // of namespaces where policies select by labels
	written     ordered.Keyed[netip.Addr, []*Service] // by the single addresses that were written for them; each list sorted by Service.compare
	arriving    arriving                              // ServiceEntries of the mesh, by the pods that they lead to
	beyond      map[string]map[config.Key]bool        // by namespace, ServiceEntries that are left out of it
	names       ordered.Map[[]asker]                  // what ingress gateways may be asked for, with the VirtualServices and Gateways that say so
	leading     ordered.Map[[]*VirtualService]        // by the hosts that they lead to
	opened      *openedServers
	refusals    *refusals
	listeners   *keptListeners // nil until the batch is done
	// gatewayAPI are the objects of the Gateway API, by their keys as text; grants are its ReferenceGrants, by namespace; and attached
	// how many routes count at a listener.
	gatewayAPI ordered.Map[*config.Object]
	sets       map[config.Key][]*config.Object // its ListenerSets, by their Gateways, in order of age
	setServers ordered.Map[*setServers]        // what those that count open, by their keys as text
	grants     map[string][]*gatewayv1.ReferenceGrantSpec
	attached   ordered.Map[int]
	secured    ordered.Map[gatewayapi.Secured] // what BackendTLSPolicies say, by the hosts of their Services
	// frontedPods are those that ask for a waypoint before their own addresses, and frontedNets the networks of those that have one.
	frontedPods ordered.Keyed[netip.Addr, *FrontedPod]
	frontedNets []netip.Prefix
	topology    *Topology
	places      map[string]string // where Nodes are, by their names
	asked       localityNeeds     // what is asked about where clients are
	// quick has what hosts has, where many questions are asked (Quick); nil elsewhere, the registry's own snapshot among it.
	quick map[string][]*Service
}

// KubeService is what a gateway's pod needs to know of the services that select it.
type KubeService struct {
	Ref      Ref
	Host     string // its name in the cluster
	Selector map[string]string
	Ports    []Port
	Outside  []netip.Addr // where it is reached from outside of the cluster
	Waypoint Ref          // the one that it asks for; see Snapshot.Waypoint
	// Ingressed says that ingress gateways go by its waypoint, too; see Snapshot.IngressWaypoint.
	Ingressed bool
	// Untranslated says that Gateway objects do not mean its ports: they name what its pods listen at themselves.
	Untranslated bool
}

// Changed says what a batch touched. Hosts are sorted; Mesh says that settings which reach all hosts changed.
type Changed struct {
	Hosts []string
	// Endpoints are the hosts of Services with other endpoints, sorted: the rest of them may be the same.
	Endpoints []string
	Mesh      bool
	// Scopes are the Sidecar objects that came, changed or went: what they select has to be looked at again, whole.
	Scopes            []config.Key
	Views             bool // which namespaces see something of their own
	Networks          bool // which networks there are, and how they are reached
	Kube              bool // the set of Kubernetes services, or a selector
	ReservedAddresses bool // the mesh's reserved addresses: gateways', the control plane's
	Nets              bool // the cluster's own networks
	// Policies are the namespaces whose EgressPolicies, or the people whom they select by labels, are others, sorted.
	Policies []string
	// Authorization are the namespaces whose AuthorizationPolicies, or RequestAuthentications, are others, sorted.
	Authorization []string
	// Names are what ingress gateways may be asked for, as far as something about it changed, sorted; of TCP, ":PORT".
	Names []string
	// Passing says that gateways may pass mutual TLS of the mesh on to other Services.
	Passing  bool
	Gateways bool // which Gateway objects there are, or what they select, or which gateways are egress gateways
	// Inbound are the namespaces with other PeerAuthentications or Telemetries, sorted.
	Inbound []string
	// Arriving are the namespaces in which other ServiceEntries lead to pods, sorted.
	Arriving []string
	// GatewayAPI are the objects of the Gateway API of which something else may be to be told, sorted.
	GatewayAPI []config.Key
	// Waypoints says that which Services have waypoints, or where those are, may be otherwise.
	Waypoints bool
	// Pods are the addresses of pods that ask for a waypoint, or did, of which something is otherwise, sorted.
	Pods []string
	// Credentials says that a Secret changed: what proxies are given, if not the hosts themselves.
	Credentials bool
	// Secrets are those that changed, as they are named.
	Secrets []CredentialRef
}

// Empty says that nothing changed.
func (c Changed) Empty() bool {
	return len(c.Hosts) == 0 && len(c.Endpoints) == 0 && !c.Mesh && len(c.Scopes) == 0 && !c.Views && !c.Kube && !c.Networks && !c.ReservedAddresses && !c.Credentials && !c.Nets && len(c.Policies) == 0 && len(c.Authorization) == 0 && len(c.Inbound) == 0 && len(c.Arriving) == 0 && len(c.Names) == 0 && len(c.GatewayAPI) == 0 && len(c.Pods) == 0 && !c.Gateways && !c.Passing && !c.Waypoints
}

// Len is the number of hosts.
func (s *Snapshot) Len() int { return s.hosts.Len() }

// Hosts goes through all host names in order.
func (s *Snapshot) Hosts() iter.Seq2[string, []*Service] {
	return func(yield func(string, []*Service) bool) {
		s.hosts.Walk(yield)
	}
}

// Services gives all registrations of exactly this host (a pattern is a host of its own).
func (s *Snapshot) Services(host string) []*Service {
	if s.quick != nil {
		return s.quick[host]
	}
	v, _ := s.hosts.Get(host)
	return v
}

// Quick is the same snapshot for who asks about many hosts: it finds each at once, where the tree of all takes some 16 comparisons. That takes
// some 60 bytes a host.
func (s *Snapshot) Quick() *Snapshot {
	out := *s
	out.quick = make(map[string][]*Service, s.hosts.Len())
	s.hosts.Walk(func(host string, list []*Service) bool { out.quick[host] = list; return true })
	return &out
}

// widerRule gives the tail of the next pattern of a DestinationRule that covers a host, at last "*", which covers all.
func widerRule(tail string) string {
	if tail == "*" {
		return ""
	}
	if next := above(tail); next != "" {
		return next
	}
	return "*"
}

// Rule finds the DestinationRule for a service as a workload in ns (or the gateway, in its own) sees it, as in Istio: the
// workload's namespace first, then the service's, then the root namespace; of a namespace's the exact host before wildcards, and rules that
// select the workload before those for all. Workloads of the root namespace come to its rules last, too, but for those that are for nobody else.
// selected are those of the workload's namespace that select it (see Selecting).
func (s *Snapshot) Rule(svc *Service, ns string, selected SelectorKey) *DestinationRule {
	return s.countedRule(s.ruleFor(svc, ns, selected), svc)
}

// ruleFor is Rule, as it is written.
func (s *Snapshot) ruleFor(svc *Service, ns string, selected SelectorKey) *DestinationRule {
	if s.rules.Len() == 0 {
		return nil
	}
	root := s.Mesh.RootNamespace
	var found [3]*DestinationRule // by whose it is
	for candidate := tailOf(svc.Host); candidate != "" && found[0] == nil; candidate = widerRule(candidate) {
		rules, _ := s.rules.Get(candidate)
		for i, in := range [...]string{ns, svc.Namespace, root} {
			if found[i] == nil {
				found[i] = firstRule(rules, func(r *DestinationRule) bool {
					switch {
					case r.Key.Namespace != in || r.Selector != nil && !selected.has(r.Key):
						return false
					case i == 0 && ns == root:
						return r.ExportTo.only(ns)
					}
					return in == ns || r.Selector != nil || r.ExportTo.Includes(ns)
				})
			}
		}
	}
	return cmp.Or(found[:]...)
}

// firstRule is the first rule of a kind among those for one host: one for single workloads before those for all.
func firstRule(rules []*DestinationRule, is func(*DestinationRule) bool) *DestinationRule {
	var forAll *DestinationRule
	for _, r := range rules {
		switch {
		case !is(r):
		case r.Selector != nil:
			return r
		case forAll == nil:
			forAll = r
		}
	}
	return forAll
}

// Scope finds the Sidecar object for a workload: one that selects it, else its namespace's, else the root
// namespace's; of several the oldest, as in Istio; nil without one.
func (s *Snapshot) Scope(ns string, labels map[string]string) *SidecarScope {
	for _, in := range [...]string{ns, s.Mesh.RootNamespace} {
		for _, scope := range s.scopes[in] {
			if in != ns && len(scope.Selector) > 0 {
				continue // a selector in the root namespace picks only workloads there
			}
			if selects(scope.Selector, labels) {
				return scope
			}
		}
	}
	return nil
}

// AllowAny says what happens to hosts that nobody registered.
func (s *Snapshot) AllowAny(scope *SidecarScope) bool {
	if scope != nil && scope.AllowAny != nil {
		return *scope.AllowAny
	}
	return s.Mesh.OutboundAllowAny
}

// DynamicDNS says whether, of those, requests go where the proxy resolves their Host. No Sidecar object can say so, and one
// that says anything takes the place of the mesh's word.
func (s *Snapshot) DynamicDNS(scope *SidecarScope) bool {
	return s.Mesh.OutboundDynamicDNS && (scope == nil || scope.AllowAny == nil)
}

// View gives the name of what a namespace sees: "" when that is what every ordinary namespace sees, else the
// namespace itself. Workloads with the same view and scope get the same configuration.
func (s *Snapshot) View(ns string) string {
	if s.special[ns] > 0 {
		return ns
	}
	return ""
}

// Different says whether a namespace sees something else than everybody, beside hosts that have a shorter name there.
func (s *Snapshot) Different(ns string) bool { return s.different[ns] > 0 }

// NeedsSecrets says whether DestinationRules of a namespace ask their clients for certificates. What another's asks for, whoever it is exported to, closes
// the ports that it is about.
func (s *Snapshot) NeedsSecrets(ns string) bool { return s.asksSecrets[ns] > 0 }

// GatewaysOf finds the Kubernetes services that select a pod with these labels, in name order.
func (s *Snapshot) GatewaysOf(ns string, labels map[string]string) []*KubeService {
	var out []*KubeService
	s.kube.in(ns, func(k *KubeService) bool {
		if len(k.Selector) > 0 && selects(k.Selector, labels) {
			out = append(out, k)
		}
		return true
	})
	return out
}

// KubeService finds a Kubernetes service.
func (s *Snapshot) KubeService(ref Ref) (*KubeService, bool) {
	return s.kube.Get(ref)
}

// GatewayService finds the Service of a gateway's pods: the Kubernetes one, or what the gateway's own namespace or the root
// namespace registered in its place. What others call so is none.
func (s *Snapshot) GatewayService(ref Ref) *Service {
	var found *Service
	for _, svc := range s.Services(s.FullName(ref)) {
		switch {
		case svc.Source.Kind == config.KindService:
			return svc
		case found == nil && s.standsFor(svc, ref):
			found = svc
		}
	}
	return found
}

// standsFor says whether what is registered for a gateway's name is it, by who registered it.
func (s *Snapshot) standsFor(svc *Service, ref Ref) bool {
	return svc.Tabled() || !svc.External && (svc.Namespace == ref.Namespace || svc.Namespace == s.Mesh.RootNamespace)
}

// IsExit says whether some service leaves by this gateway, by the word of somebody who can say so (see Service.Borrowed).
func (s *Snapshot) IsExit(ref Ref) bool { return s.exits[ref] > 0 }

// ExitsIn gives the gateways of a namespace that some service leaves by, in name order.
func (s *Snapshot) ExitsIn(ns string) []Ref {
	var out []Ref
	for ref := range s.exits {
		if ref.Namespace == ns {
			out = append(out, ref)
		}
	}
	slices.SortFunc(out, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// SharedExitsIn gives the gateways of a namespace that stand for everybody, in name order: the mesh's default gateway, and
// those that objects of the root namespace name. Whoever names a gateway in a namespace of its own has it for itself.
func (s *Snapshot) SharedExitsIn(ns string) []Ref {
	var out []Ref
	for ref := range s.shared {
		if ref.Namespace == ns {
			out = append(out, ref)
		}
	}
	if def := Ref(s.Mesh.DefaultGateway); def.Namespace == ns && !def.IsZero() && s.shared[def] == 0 {
		out = append(out, def)
	}
	slices.SortFunc(out, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// SharedExits gives the gateways that stand for everybody, wherever they are, in order.
func (s *Snapshot) SharedExits() []Ref {
	out := slices.Collect(maps.Keys(s.shared))
	if def := Ref(s.Mesh.DefaultGateway); !def.IsZero() && s.shared[def] == 0 {
		out = append(out, def)
	}
	slices.SortFunc(out, func(a, b Ref) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// ScopeByKey finds a Sidecar object; nil for the zero key or when it is gone.
func (s *Snapshot) ScopeByKey(k config.Key) *SidecarScope {
	list := s.scopes[k.Namespace]
	i := slices.IndexFunc(list, func(sc *SidecarScope) bool { return sc.Key == k })
	if i < 0 {
		return nil
	}
	return list[i]
}
