package registry

import (
	"maps"
	"net/netip"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry/ordered"
	"github.com/sallyport/sallyport/serviceentry/route"
	"github.com/sallyport/sallyport/serviceentry/tokens"
)

// Registry turns changes into snapshots. It is for one goroutine.
type Registry struct {
	objects config.ByKey[*config.Object]
	hostsOf config.ByKey[config.Texts]           // what each object registered
	leaders map[string]map[config.Key]*meshEntry // of a namespace's ServiceEntries of the mesh: what they lead to pods by
	index   index
	remotes map[string]*index // of other clusters, by their names
	madeUp  *madeUp
	// tails are all hosts by their labels, from the last one on; specials, the namespaces that see something else of a host than
	// everybody, as they are counted.
	tails    *ordered.KeyedEdit[string, struct{}]
	ports    map[portsKey][]Port // see samePorts
	traits   map[traitsKey]*Traits
	specials map[string]map[viewer]bool
	snap     *Snapshot

	nodes map[config.Key][]netip.Prefix // what each Node says of the cluster's networks

	asking     map[config.Key][]string // what objects ask about clients, in words (see asks)
	askedAbout map[string]int          // those words, counted

	rangeBits [2][129]int // how many ranges of addresses there are of each length: of IPv4, of IPv6

	control   Ref // the control plane's Service
	controlAt []netip.Addr
}

// New makes an empty registry.
func New(cfg *mesh.Config) *Registry {
	return &Registry{
		leaders: map[string]map[config.Key]*meshEntry{},
		index:   newIndex(),
		remotes: map[string]*index{},
		madeUp:  newMadeUp(),
		tails:   ordered.NewKeyed[string, struct{}](compareTails).Edit(), ports: map[portsKey][]Port{}, traits: map[traitsKey]*Traits{}, specials: map[string]map[viewer]bool{},
		nodes: map[config.Key][]netip.Prefix{}, asking: map[config.Key][]string{}, askedAbout: map[string]int{},
		snap: &Snapshot{
			Mesh: cfg, mostRows: route.MostRows, hosts: ordered.New[[]*Service](), rules: ordered.New[[]*DestinationRule](), virtual: ordered.New[[]*VirtualService](),
			scopes: map[string][]*SidecarScope{}, special: map[string]int{}, different: map[string]int{}, reasons: map[string]map[string]int{}, asksSecrets: map[string]int{}, exits: map[Ref]int{}, shared: map[Ref]int{}, kube: newKubeServices(), aliases: ordered.New[*Alias](), aliasesOf: ordered.New[[]Ref](), written: ordered.NewKeyed[netip.Addr, []*Service](netip.Addr.Compare), arriving: newArriving(),
			policies: map[string]egresspolicy.Level{}, fronted: map[string][]*frontedGateway{}, authorizing: map[string]authz.Set{}, verifying: map[string]tokens.Set{}, namespaces: map[string]map[string]string{}, people: map[string][]LabeledWorkload{}, peerAuths: map[string][]*PeerAuth{}, telemetries: map[string][]*Telemetry{},
			nets:  clusterNetworks(cfg.ClusterNetworks, nil),
			names: ordered.New[[]asker](), leading: ordered.New[[]*VirtualService](), opened: &openedServers{}, refusals: &refusals{},
			frontedPods: ordered.NewKeyed[netip.Addr, *FrontedPod](netip.Addr.Compare),
			gatewayAPI:  ordered.New[*config.Object](), attached: ordered.New[int](), setServers: ordered.New[*setServers](), secured: ordered.New[gatewayapi.Secured](),
			endpoints: ordered.New[*EndpointSet](), patterns: ordered.New[[]*Service](), find: newLookups(), made: map[string]map[string]uint32{},
		},
	}
}

// NewWithoutSecrets makes one for who reads neither Secrets nor ConfigMaps: that one is not there, or is of no use, is no problem then.
func NewWithoutSecrets(cfg *mesh.Config) *Registry {
	r := New(cfg)
	r.snap.unread = true
	return r
}

// Bounded has VirtualServices and DestinationRules come to fewer rows for hosts below their patterns than route.MostRows, before anything is applied: what follows where
// there are too many is tried with few.
func (r *Registry) Bounded(rows int) *Registry {
	r.snap.mostRows = rows
	return r
}

// Unread says that neither Secrets nor ConfigMaps were read.
func (s *Snapshot) Unread() bool { return s.unread }

// Snapshot gives what the last Apply made.
func (r *Registry) Snapshot() *Snapshot { return r.snap }

// Apply takes a batch of changes, in any order, and gives the new snapshot and what the batch touched. An
// object that equals the one known (same hash) is no change.
func (r *Registry) Apply(changes []config.Change) (*Snapshot, Changed) {
	b := r.begin()
	for _, c := range changes {
		b.apply(c)
	}
	return b.commit()
}

// SetMesh replaces the mesh-wide settings.
func (r *Registry) SetMesh(cfg *mesh.Config) (*Snapshot, Changed) {
	b := r.begin()
	if cfg.RootNamespace != b.next.Mesh.RootNamespace { // whose objects come before whose follows it
		b.hosts.Walk(func(host string, _ []*Service) bool { b.renamed[host] = true; return true })
		for ns := range b.next.made {
			b.countView(ns, ns, -1, true)
		}
		b.next.made, b.madeCopied = map[string]map[string]uint32{}, true
		b.madeUp = newMadeUp() // every host claims its address anew
	}
	for ns := range b.next.policies {
		b.policed[ns] = true
	}
	b.relabelAllPods()
	was := b.next.Unrefusable()
	b.next.Mesh = cfg
	b.datagramsTurned = b.next.Unrefusable() != was
	b.changed.Mesh, b.netsMoved, b.rewired = true, true, true
	if !slices.Equal(cfg.Topology.Local, b.snap.Mesh.Topology.Local) {
		b.peopleEverywhere()
	}
	b.next.opened = &openedServers{}
	for key := range b.next.gateways {
		b.askedAgain[key] = true
	}
	for key := range r.hostsOf.Keys() {
		if !isRoute(key.Kind) {
			b.dirty[key] = true // exits and visibility may follow the settings
		}
	}
	b.remakeEgress()
	for _, p := range b.next.policies[cfg.RootNamespace] {
		b.dirty[p.Key] = true // so may which policies let something out
	}
	for _, key := range slices.Collect(maps.Keys(r.index.rules)) {
		b.setRule(config.Change{Key: key, Object: r.objects.Get(key)}) // so may whom a rule is exported to
	}
	for _, key := range slices.Collect(maps.Keys(r.index.virtual.made)) {
		if !r.index.virtual.made[key].ofGatewayAPI() {
			b.makeVirtualService(key)
		}
		b.askedAgain[key] = true
	}
	for key, o := range r.objects.Of(config.KindService) {
		if key.Cluster == "" {
			b.setAlias(config.Change{Key: key, Object: o})
		}
	}
	return b.commit()
}

// batch is one Apply at work. Everything that readers can see is in next, which nobody has yet.
type batch struct {
	*Registry
	next      *Snapshot
	hosts     *ordered.Edit[[]*Service]
	rules     *ordered.Edit[[]*DestinationRule]
	virtual   *ordered.Edit[[]*VirtualService]
	kube      *ordered.KeyedEdit[Ref, *KubeService]
	written   *ordered.KeyedEdit[netip.Addr, []*Service]
	arriving  *ordered.KeyedEdit[podAddress, []podEntry]
	aliases   *ordered.Edit[*Alias]
	aliasesOf *ordered.Edit[[]Ref]
	changed   Changed
	dirty     map[config.Key]bool // objects whose services must be made again
	peopled   map[config.Key]bool // Services whose endpoints may be others
	endpoints *ordered.Edit[*EndpointSet]
	// repopulated are the hosts of those whose endpoints are others.
	repopulated map[string]bool
	touched     map[string]bool // hosts whose registrations changed
	beside      map[string]bool // hosts that share a name or an address with those
	led         map[string]bool // hosts of which nothing differs but who leads ingress gateways there
	patterns    *ordered.Edit[[]*Service]
	find        lookupsEdit
	rooms       *rooms                       // of what is sealed
	sealed      map[string][]*Service        // hosts whose registrations are others now, with what they were
	selectedNow map[selectedAlike][]Endpoint // what entries select, as far as it was found
	hashed      map[*Endpoint]uint64         // lists of endpoints, by their first ones: the hosts of an entry share one
	renamed     map[string]bool              // hosts whose names may mean another thing now
	// rewritten are the single addresses that those wrote, before or now, and which of them did.
	rewritten map[netip.Addr]map[string]bool
	arrived   map[config.Key]*meshEntry // ServiceEntries of the mesh that may lead to other pods, and what they are now

	partial []string // of the patterns of rules that changed, those whose "*" is a part of a label
	unseen  bool     // something is new that shows in no host yet

	authorized map[string]bool // namespaces with other AuthorizationPolicies
	// datagramsTurned says that whether anything comes in by UDP is otherwise.
	datagramsTurned bool

	policed   map[string]bool // namespaces with other EgressPolicies, or other people that they select by labels
	populated map[string]bool // namespaces whose people may be others
	// authenticated are the namespaces with other PeerAuthentications.
	authenticated map[string]bool
	// recorded are the namespaces with other Telemetries.
	recorded map[string]bool

	names      *ordered.Edit[[]asker]
	leading    *ordered.Edit[[]*VirtualService]
	askedAgain map[config.Key]bool // VirtualServices and Gateways by which ingress gateways may be asked for other names, or lead elsewhere
	named      map[string]bool     // the names that are to be looked at again

	gatewayAPI    *ordered.Edit[*config.Object]
	attached      *ordered.Edit[int]
	setServers    *ordered.Edit[*setServers]
	secured       *ordered.Edit[gatewayapi.Secured]
	remade        map[config.Key]bool       // Gateways and routes of the Gateway API that are to be made again
	reset         map[config.Key]bool       // Gateways whose ListenerSets may be others
	reread        map[config.Key]bool       // ListenerSets whose listeners are to be read again
	setsCopied    map[config.Key]bool       // the Gateways whose lists of ListenerSets are next's own
	recount       map[string]bool           // patterns, by tailOf, that more or fewer VirtualServices and DestinationRules are for
	rejudged      map[config.Key]bool       // VirtualServices that are others now
	rejudgedRules map[*DestinationRule]bool // and DestinationRules for patterns
	rejoined      map[ledService]bool       // and of what all routes that are for it make something else
	retold        map[config.Key]bool       // its objects of which something else may be to be told

	refronted          map[config.Key]bool                      // pods that may ask for another waypoint, or none
	reclaimed          map[netip.Addr]bool                      // addresses that may be another pod's, or nobody's
	fronted            map[string]bool                          // namespaces in which other pods may take mutual TLS for a waypoint's sake
	fronting           map[string]map[selectedBy][]*KubeService // the Services of a namespace that have a waypoint; made when it is asked for
	rewired            bool                                     // which networks there are, and how they are reached, may be otherwise
	netsMoved          bool                                     // what the cluster's networks are made from
	placesMoved        bool                                     // where Nodes are
	secretsCopied      bool                                     // next has a map of its own
	credsCopied        bool                                     // next has a map of its own
	specialCopied      bool                                     // next has a map of its own
	reasonsOf          map[string]map[string]int                // whose reasons next has maps of its own of
	crowdedCopied      bool                                     // next has a map of its own
	crowdedAtCopied    bool                                     // next has a map of its own
	crowdedRulesCopied bool                                     // next has a map of its own
	madeCopied         bool                                     // next has a map of its own
	exitWas            map[Ref]bool                             // gateways whose count changed: whether anything left by them before
}

func (r *Registry) begin() *batch {
	clear(r.index.ruled)
	next := *r.snap
	next.refusals, next.listeners, next.quick = &refusals{}, nil, nil
	return &batch{
		Registry: r, next: &next,
		hosts: next.hosts.Edit(), rules: next.rules.Edit(), virtual: next.virtual.Edit(), kube: next.kube.Edit(), written: next.written.Edit(), arriving: next.arriving.Edit(),
		aliases: next.aliases.Edit(), aliasesOf: next.aliasesOf.Edit(),
		patterns: next.patterns.Edit(), find: next.find.edit(), endpoints: next.endpoints.Edit(),
		peopled: map[config.Key]bool{}, repopulated: map[string]bool{},
		dirty: map[config.Key]bool{}, touched: map[string]bool{}, beside: map[string]bool{}, led: map[string]bool{}, rewritten: map[netip.Addr]map[string]bool{}, arrived: map[config.Key]*meshEntry{},
		sealed: map[string][]*Service{}, hashed: map[*Endpoint]uint64{}, renamed: map[string]bool{},
		policed: map[string]bool{}, populated: map[string]bool{}, authorized: map[string]bool{}, authenticated: map[string]bool{}, recorded: map[string]bool{},
		names: next.names.Edit(), leading: next.leading.Edit(), askedAgain: map[config.Key]bool{}, named: map[string]bool{},
		gatewayAPI: next.gatewayAPI.Edit(), attached: next.attached.Edit(), setServers: next.setServers.Edit(), secured: next.secured.Edit(), remade: map[config.Key]bool{}, reset: map[config.Key]bool{}, reread: map[config.Key]bool{}, setsCopied: map[config.Key]bool{}, recount: map[string]bool{}, rejudged: map[config.Key]bool{}, rejudgedRules: map[*DestinationRule]bool{}, rejoined: map[ledService]bool{}, retold: map[config.Key]bool{}, refronted: map[config.Key]bool{}, reclaimed: map[netip.Addr]bool{}, fronted: map[string]bool{}, fronting: map[string]map[selectedBy][]*KubeService{},
	}
}

func (b *batch) apply(c config.Change) {
	old := b.objects.Get(c.Key)
	switch {
	case old == nil && c.Object == nil:
		return
	case old != nil && c.Object != nil && old.Hash == c.Object.Hash:
		b.objects.Put(c.Key, c.Object) // only its place in the files can differ
		return
	case c.Object == nil:
		b.objects.Delete(c.Key)
	default:
		b.objects.Put(c.Key, c.Object)
	}
	if c.Key.Cluster != "" {
		b.applyRemote(c)
		return
	}
	switch c.Key.Kind {
	case config.KindServiceEntry:
		b.dirty[c.Key] = true
		b.index.setSelecting(c.Key, c.Object)
		b.noteAskedBy(c)
	case config.KindDestinationRule:
		b.setRule(c)
	case config.KindVirtualService:
		b.setVirtualService(c.Key)
	case config.KindGateway:
		b.setGateway(c)
	case config.KindSidecar:
		b.setScope(c)
	case config.KindEgressPolicy:
		b.setPolicy(c)
	case config.KindAuthorizationPolicy:
		b.setAuthorization(c)
	case config.KindRequestAuthentication:
		b.setTokens(c)
	case config.KindKeySet:
		b.setKeys(c)
	case config.KindPeerAuthentication:
		b.setPeerAuth(c)
	case config.KindTelemetry:
		b.setTelemetry(c)
	case config.KindGatewayClass, config.KindKubeGateway, config.KindListenerSet, config.KindHTTPRoute, config.KindGRPCRoute, config.KindTLSRoute,
		config.KindTCPRoute, config.KindUDPRoute, config.KindReferenceGrant, config.KindBackendTLSPolicy:
		b.setGatewayAPI(c)
	case config.KindNamespace:
		b.setNamespaceLabels(c)
		b.rewired = b.rewired || c.Key.Name == b.next.Mesh.RootNamespace
		b.relabel()
		for key := range b.hostsOf.Keys() {
			if key.Kind == config.KindServiceEntry && key.Namespace == c.Key.Name {
				b.dirty[key] = true
				b.noteEntryWaypoint(key)
			}
		}
	case config.KindNode:
		b.setNode(c)
		b.setPlace(c)
	case config.KindService:
		b.dirty[c.Key], b.peopled[c.Key] = true, true
		b.index.setService(c.Key, c.Object)
		b.noteAskedBy(c)
		b.setNetworkGateway(c)
		b.setKube(Ref{c.Key.Namespace, c.Key.Name})
		b.setAlias(c)
	case config.KindEndpointSlice:
		b.repopulate(b.index.setSlice(c.Key, c.Object))
	case config.KindSecret:
		b.setSecret(c)
		b.turnNamed(c.Key)
	case config.KindConfigMap:
		b.setConfigMap(c)
		b.turnNamed(c.Key)
	case config.KindWorkloadEntry:
		b.repopulate(b.index.setWorkload(c.Key, c.Object))
		b.peopleMoved(c.Key.Namespace)
	case config.KindPod:
		b.setFronted(c)
		b.repopulate(b.index.setPod(c.Key, c.Object))
		b.refronted[c.Key] = true
		b.peopleMoved(c.Key.Namespace)
	}
}

func (b *batch) commit() (*Snapshot, Changed) {
	b.settlePeerAuths()
	b.settleTelemetries()
	b.settleAsked()
	b.settleTopology()
	b.settleWaypoints()
	for key := range b.peopled {
		b.findEndpoints(key)
	}
	for key := range b.dirty {
		b.rebuild(key)
	}
	b.settleGatewayAPI()
	b.claimAddresses()
	b.rooms = roomsFor(len(b.touched))
	for host := range b.touched {
		b.seal(host)
	}
	b.settleCrowded()
	b.settleNames()
	b.shareAddresses()
	b.settleArriving()
	b.lockReserved()
	b.joinNetworks()
	maps.Copy(b.touched, b.beside)
	for ref, was := range b.exitWas {
		if was != (b.next.exits[ref] > 0) {
			b.touched[ref.Host()] = true // it is programmed as a gateway now, or as a service like others
			b.changed.Gateways = true
		}
	}
	b.noteWaypoints()
	b.followDestinations()
	b.followMeshRoutes()
	b.settleNamesAsked()
	b.tellGatewayAPI()
	b.settlePolicies()
	b.askElsewhere()
	b.settleTables()
	b.changed.Authorization = slices.Sorted(maps.Keys(b.authorized))
	maps.Copy(b.touched, b.led)
	b.changed.Hosts = slices.Sorted(maps.Keys(b.touched))
	b.changed.Endpoints = slices.Sorted(maps.Keys(b.repopulated))
	b.next.hosts, b.next.rules, b.next.virtual, b.next.kube, b.next.written = b.hosts.Done(), b.rules.Done(), b.virtual.Done(), kubeServices{b.kube.Done()}, b.written.Done()
	b.next.arriving = b.arriving.Done()
	b.next.aliases, b.next.aliasesOf = b.aliases.Done(), b.aliasesOf.Done()
	b.next.patterns, b.next.endpoints = b.patterns.Done(), b.endpoints.Done()
	b.next.gatewayAPI, b.next.attached, b.next.secured, b.next.setServers = b.gatewayAPI.Done(), b.attached.Done(), b.secured.Done(), b.setServers.Done()
	b.next.names, b.next.leading = b.names.Done(), b.leading.Done()
	b.next.find.madeUp, b.next.find.ranges, b.next.find.spoken = b.find.madeUp.Done(), b.find.ranges.Done(), b.find.spoken.Done()
	b.settleFrontedPods()
	if b.changed.Empty() && len(b.index.ruled) == 0 && !b.unseen { // a rule counts later, for a host that is not there yet
		return b.snap, b.changed
	}
	b.next.listeners = &keptListeners{}
	b.Registry.snap = b.next
	return b.next, b.changed
}

// repopulate marks whatever selects a workload that changed: of Services the endpoints, of entries what was made of them.
func (b *batch) repopulate(selecting map[config.Key]bool) {
	for key := range selecting {
		if key.Kind == config.KindService {
			b.peopled[key] = true
		} else {
			b.dirty[key] = true
		}
	}
}

// rebuild makes an object's services again and marks the hosts that differ.
func (b *batch) rebuild(key config.Key) {
	if key.Kind == config.KindService {
		maps.Copy(b.remade, b.index.gatewayAPI.parents[key])
	}
	services := b.make(key)
	if key.Kind == config.KindServiceEntry {
		b.noteLeader(key, leaderOf(services))
	}
	b.register(key, services)
}

// register puts an object's services in the place of those that it had, and marks the hosts of both.
func (b *batch) register(key config.Key, services []*Service) {
	for host := range b.hostsOf.Get(key).All() {
		b.touched[host] = true
		b.replace(host, key, nil)
	}
	b.hostsOf.Delete(key)
	var hosts []string
	for _, s := range services {
		b.touched[s.Host] = true
		b.replace(s.Host, key, s)
		hosts = append(hosts, s.Host)
	}
	if len(hosts) > 0 {
		b.hostsOf.Put(key, config.TextsOf(hosts))
	}
}

func (b *batch) make(key config.Key) []*Service {
	o := b.objects.Get(key)
	if o == nil {
		if key.Kind == config.KindService {
			return b.fromRemote(key)
		}
		return nil
	}
	switch spec := o.Spec.(type) {
	case *networking.ServiceEntry:
		nsGateway := ""
		if ns := b.objects.Get(config.Key{Kind: config.KindNamespace, Name: o.Namespace}); ns != nil {
			nsGateway = ns.Annotations[GatewayAnnotation]
		}
		services := FromEntry(o, spec, nsGateway, b.next.Mesh)
		if len(services) == 0 {
			return nil
		}
		endpoints := services[0].Endpoints // of all of them
		if labels := spec.GetWorkloadSelector().GetLabels(); len(labels) > 0 {
			endpoints = b.selectedEndpoints(o, labels)
		} else {
			b.next.placeEndpoints(o.Namespace, services[0].External, endpoints)
		}
		for _, s := range services {
			s.Endpoints, s.Waypoint = endpoints, b.entryWaypoint(o, s)
		}
		return services
	case *v1alpha1.EgressPolicy:
		return b.letOut(o, spec)
	case *corev1.Service:
		if spec.Spec.Type == corev1.ServiceTypeExternalName {
			return nil // see Alias
		}
		set, _ := b.endpoints.Get(Ref{o.Namespace, o.Name}.Host())
		return []*Service{fromKubeService(o, spec, set, b.next)}
	}
	return nil
}

// replace puts svc in the place of the registration that the object made of the host; nil takes it out.
func (b *batch) replace(host string, key config.Key, svc *Service) {
	old, _ := b.hosts.Get(host)
	list := make([]*Service, 0, len(old)+1)
	for _, s := range old {
		if s.Source != key {
			list = append(list, s)
		}
	}
	if svc != nil {
		list = append(list, svc)
		slices.SortFunc(list, (*Service).compare)
	}
	if len(list) == 0 {
		b.hosts.Delete(host)
		return
	}
	b.hosts.Put(host, list)
}
