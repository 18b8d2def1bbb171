package registry

import (
	"cmp"
	"maps"
	"slices"
	"time"

	security "istio.io/api/security/v1"

	"github.com/sallyport/sallyport/config"
)

// MTLSMode is what a pod takes at a port: Istio's modes of a PeerAuthentication. UNSET is none of them; it leaves what the wider
// policy says.
type MTLSMode uint8

// The modes.
const (
	Permissive MTLSMode = iota // mutual TLS of the mesh, and whatever else comes
	Disable                    // whatever comes: mutual TLS is the app's own
	Strict                     // mutual TLS of the mesh only
)

// String gives Istio's word.
func (m MTLSMode) String() string { return [...]string{"PERMISSIVE", "DISABLE", "STRICT"}[m] }

// PeerAuth is a PeerAuthentication.
type PeerAuth struct {
	Key      config.Key
	Revision string
	Created  time.Time
	Selector map[string]string    // of workloads in its namespace; nil for all
	Mode     *MTLSMode            // nil leaves it
	Ports    map[uint32]*MTLSMode // by the pod's own ports; nil is as for the others
}

// Modes is what a workload takes. By are the objects that say so; the zero Key where none does.
type Modes struct {
	Default MTLSMode
	By      config.Key
	Ports   map[uint32]MTLSMode // those that are otherwise than the default
	PortsBy config.Key
}

// At gives the mode of a port, and the object that says so.
func (m Modes) At(port uint32) (MTLSMode, config.Key) {
	if mode, ok := m.Ports[port]; ok {
		return mode, m.PortsBy
	}
	return m.Default, m.By
}

// OnlyMutual says whether nothing but mutual TLS is taken at some port.
func (m Modes) OnlyMutual() bool {
	if m.Default == Strict {
		return true
	}
	for _, mode := range m.Ports {
		if mode == Strict {
			return true
		}
	}
	return false
}

// where says of which modes something is so: by default, and at which ports it is otherwise.
func (m Modes) where(is func(MTLSMode) bool) (byDefault bool, otherwise map[uint32]bool) {
	byDefault = is(m.Default)
	for port, mode := range m.Ports {
		if so := is(mode); so != byDefault {
			if otherwise == nil {
				otherwise = map[uint32]bool{}
			}
			otherwise[port] = so
		}
	}
	return byDefault, otherwise
}

// Modes finds what workloads of a namespace with these labels take. As in Istio the mesh's policy (of the root namespace) comes
// before the namespace's and that before the workload's, each where it says something; of several at one level the oldest counts;
// ports are told apart by the workload's only; and one with a selector in the root namespace is for nobody.
func (s *Snapshot) Modes(ns string, labels map[string]string) Modes {
	var m Modes
	root := s.Mesh.RootNamespace
	m.take(widePeerAuth(s.peerAuths[root]))
	if ns == root {
		return m
	}
	m.take(widePeerAuth(s.peerAuths[ns]))
	i := slices.IndexFunc(s.peerAuths[ns], func(p *PeerAuth) bool { return p.Selector != nil && selects(p.Selector, labels) })
	if i < 0 {
		return m
	}
	p := s.peerAuths[ns][i]
	m.take(p)
	for port, mode := range p.Ports {
		if mode == nil || *mode == m.Default {
			continue
		}
		if m.Ports == nil {
			m.Ports, m.PortsBy = map[uint32]MTLSMode{}, p.Key
		}
		m.Ports[port] = *mode
	}
	return m
}

func (m *Modes) take(p *PeerAuth) {
	if p != nil && p.Mode != nil {
		m.Default, m.By = *p.Mode, p.Key
	}
}

// widePeerAuth is the first that is for all workloads; nil without one.
func widePeerAuth(list []*PeerAuth) *PeerAuth {
	if i := slices.IndexFunc(list, func(p *PeerAuth) bool { return p.Selector == nil }); i >= 0 {
		return list[i]
	}
	return nil
}

// AuthenticatesByLabels says whether workloads of a namespace are told apart by their labels.
func (s *Snapshot) AuthenticatesByLabels(ns string) bool {
	return ns != s.Mesh.RootNamespace && slices.ContainsFunc(s.peerAuths[ns], func(p *PeerAuth) bool { return p.Selector != nil })
}

func fromPeerAuthentication(o *config.Object, spec *security.PeerAuthentication) *PeerAuth {
	p := &PeerAuth{Key: o.Key, Revision: o.Revision, Created: o.Created, Mode: mtlsMode(spec.GetMtls())}
	if labels := spec.GetSelector().GetMatchLabels(); len(labels) > 0 {
		p.Selector = labels
	}
	for port, m := range spec.GetPortLevelMtls() {
		if p.Ports == nil {
			p.Ports = map[uint32]*MTLSMode{}
		}
		p.Ports[port] = mtlsMode(m)
	}
	return p
}

func mtlsMode(m *security.PeerAuthentication_MutualTLS) *MTLSMode {
	switch m.GetMode() {
	case security.PeerAuthentication_MutualTLS_DISABLE:
		return new(Disable)
	case security.PeerAuthentication_MutualTLS_PERMISSIVE:
		return new(Permissive)
	case security.PeerAuthentication_MutualTLS_STRICT:
		return new(Strict)
	default:
		return nil
	}
}

// setPeerAuth replaces or removes a PeerAuthentication. Whether its pods are spoken to by mutual TLS is told with the endpoints of
// whatever selects them, so these are looked at again: those of its namespace, or after one of the root namespace all.
func (b *batch) setPeerAuth(c config.Change) {
	b.next.peerAuths = afterChange(b.next.peerAuths, c, func(o *config.Object) *PeerAuth {
		return fromPeerAuthentication(o, o.Spec.(*security.PeerAuthentication))
	}, func(p *PeerAuth) config.Key { return p.Key }, func(x, y *PeerAuth) int { return cmp.Or(x.Created.Compare(y.Created), x.Key.Compare(y.Key)) })
	b.authenticated[c.Key.Namespace] = true
}

// settlePeerAuths looks at the endpoints again whose pods may be authenticated otherwise. It comes before they are gathered.
func (b *batch) settlePeerAuths() {
	b.changed.Inbound = slices.Sorted(maps.Keys(b.authenticated))
	all := b.authenticated[b.next.Mesh.RootNamespace] || b.authenticated[b.snap.Mesh.RootNamespace] || b.next.Mesh.AutoMTLS != b.snap.Mesh.AutoMTLS ||
		(len(b.next.Mesh.NodeAgents) > 0) != (len(b.snap.Mesh.NodeAgents) > 0) // who takes it at nodes
	for _, cluster := range b.clusters() {
		for ns, in := range b.of(cluster).services {
			for key := range in {
				if all || b.authenticated[ns] {
					b.peopled[home(key)] = true
				}
			}
		}
	}
	if all || len(b.authenticated) > 0 {
		for key := range b.hostsOf.Keys() {
			if key.Kind == config.KindServiceEntry && (all || b.authenticated[key.Namespace]) {
				b.dirty[key] = true
			}
		}
	}
}
