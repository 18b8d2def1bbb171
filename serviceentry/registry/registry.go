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
