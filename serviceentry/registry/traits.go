package registry

import "net/netip"

// Traits are what of a service is the same for many: where it leaves by, who sees it, and what few have at all. Services share them, so they are
// never written to once a batch is committed: see Service.With.
type Traits struct {
	Addresses []netip.Prefix // that the user wrote, or the cluster IPs
	Written   []netip.Prefix `json:",omitzero"` // of a headless Service's, those that no pod has: see Endpoint.Written
	// OfNodes are, of a headless Service's, those of pods on the network of their Node, which many others may have.
	OfNodes  []netip.Prefix `json:",omitzero"`
	ExportTo ExportTo
	SANs     []string // subjectAltNames that the server must show one of
	// Withheld says why the entry's exportTo does not count beyond its own namespace; nil where it does.
	Withheld *ExportRefusal `json:",omitzero"`

	// Exit is the egress gateway that the service leaves by; zero: straight from the sidecar.
	Exit Ref
	// Waypoint is the one that an entry asks for; of a Kubernetes Service its KubeService has it. See Snapshot.Waypoint.
	Waypoint Ref `json:",omitzero"`
	// TrafficDistribution is which endpoints it wants asked first, NodeLocal that only those on a client's own Node are asked.
	TrafficDistribution TrafficDistribution `json:",omitzero"`
	NodeLocal           bool                `json:",omitzero"`

	External bool // outside the mesh
	// Unregistered says that no object registers the host: a rule of an EgressPolicy lets it out (see unregistered.go).
	Unregistered bool `json:",omitzero"`
	// RootExit says that an object of the root namespace leaves by Exit: such a gateway speaks for others.
	RootExit bool
	// Borrowed says that the gateway is neither the mesh's, nor of the namespace that names it, nor named by the root
	// namespace: nobody who could says that it is one, so it stays a Service like others for everybody else.
	Borrowed bool
	// HasSelector says of a Kubernetes Service that it selects pods, so that its endpoints are the cluster's to write, and not who owns the Service's.
	HasSelector bool `json:",omitzero"`
	// ByClientIP says of a Kubernetes Service that it keeps clients with their pods by their addresses (sessionAffinity), which proxies do not.
	ByClientIP bool `json:",omitzero"`
	// Elsewhere says that only other clusters have it, so that it has none of their addresses here.
	Elsewhere bool `json:",omitzero"`
	// Beside is how many hosts the object registers beside this one.
	Beside uint16 `json:",omitzero"`
}

// With is the service with other traits, which f writes to. Its hash is the caller's to change.
func (s *Service) With(f func(*Traits)) *Service {
	out, traits := *s, *s.Traits
	f(&traits)
	out.Traits = &traits
	return &out
}

// traitsKey is what traits are known again by that many services have.
type traitsKey struct {
	exit, waypoint                     Ref
	distribution                       TrafficDistribution
	all                                bool
	to                                 string // the namespace that sees it, where that is one
	beside                             uint16
	nodeLocal, external, unregistered  bool
	rootExit, borrowed                 bool
	hasSelector, byClientIP, elsewhere bool
}

// keptTraits is how many are known again.
const keptTraits = 4 << 10

// sameTraits gives of equal traits one, mostly, and always in one form: lists without anything in them are nil, whoever has said so first.
func (r *Registry) sameTraits(t *Traits) *Traits {
	if t.anyEmpty() {
		own := *t
		for _, list := range []*[]netip.Prefix{&own.Addresses, &own.Written, &own.OfNodes} {
			if len(*list) == 0 {
				*list = nil
			}
		}
		for _, list := range []*[]string{&own.SANs, &own.ExportTo.Namespaces} {
			if len(*list) == 0 {
				*list = nil
			}
		}
		t = &own
	}
	if len(t.Addresses)+len(t.Written)+len(t.OfNodes)+len(t.SANs) > 0 || t.Withheld != nil || len(t.ExportTo.Namespaces) > 1 {
		return t
	}
	key := traitsKey{
		exit: t.Exit, waypoint: t.Waypoint, distribution: t.TrafficDistribution, all: t.ExportTo.All, beside: t.Beside,
		nodeLocal: t.NodeLocal, external: t.External, unregistered: t.Unregistered, rootExit: t.RootExit, borrowed: t.Borrowed,
		hasSelector: t.HasSelector, byClientIP: t.ByClientIP, elsewhere: t.Elsewhere,
	}
	for _, ns := range t.ExportTo.Namespaces {
		key.to = ns + "/" // none has this in its name
	}
	known, ok := r.traits[key]
	if !ok {
		if len(r.traits) >= keptTraits {
			clear(r.traits)
		}
		known = t
		r.traits[key] = known
	}
	return known
}

// anyEmpty says whether a list is there and has nothing in it.
func (t *Traits) anyEmpty() bool {
	return t.Addresses != nil && len(t.Addresses) == 0 || t.Written != nil && len(t.Written) == 0 || t.OfNodes != nil && len(t.OfNodes) == 0 ||
		t.SANs != nil && len(t.SANs) == 0 || t.ExportTo.Namespaces != nil && len(t.ExportTo.Namespaces) == 0
}
