package registry

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry/ordered"
)

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
