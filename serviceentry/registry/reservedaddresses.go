package registry

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/config/inside"
)

// isOwn says whether an address is one of the mesh's reserved addresses: an egress gateway, by any of its addresses, or the control
// plane. No object leads a gateway there, whatever else is allowed.
func (s *Snapshot) isOwn(addr netip.Addr) bool {
	_, found := slices.BinarySearchFunc(s.own, inside.Plain(addr), netip.Addr.Compare)
	return found
}

// ReservedAddresses are the mesh's reserved addresses: gateways', the control plane's, sorted. The slice must not be changed.
func (s *Snapshot) ReservedAddresses() []netip.Addr { return s.own }

// ControlPlaneService is what the control plane's Service is called.
const ControlPlaneService = "sallyport"

// SetControlPlane says where the control plane is: its Service, and addresses of its own. Unless a Service is named it is that of the
// root namespace, so that whoever reads the same objects knows the same ones.
func (r *Registry) SetControlPlane(service Ref, addresses []netip.Addr) (*Snapshot, Changed) {
	r.control, r.controlAt = service, addresses
	return r.begin().commit()
}

// lockReserved finds the reserved addresses anew, and marks the hosts that may have led there, or now would: those with
// addresses written down for their endpoints.
func (b *batch) lockReserved() {
	var own []netip.Addr
	add := func(text string) {
		if addr, err := netip.ParseAddr(text); err == nil {
			own = append(own, addr.WithZone("").Unmap())
		}
	}
	own = append(own, b.controlAt...)
	for _, ref := range b.reservedServices() {
		if k, ok := b.kube.Get(ref); ok {
			own = append(own, k.Outside...)
		}
		list, _ := b.hosts.Get(ref.Host())
		for _, svc := range list {
			if !b.next.standsFor(svc, ref) { // or any address were anybody's to reserve
				continue
			}
			for _, a := range svc.Addresses {
				add(a.Addr().String())
			}
			endpoints := svc.Endpoints
			if set, _ := b.endpoints.Get(svc.Host); svc.Tabled() && set != nil {
				endpoints = set.List
			}
			for _, e := range endpoints {
				if !b.next.topology.elsewhere(e) {
					add(e.Address)
				}
			}
		}
	}
	slices.SortFunc(own, netip.Addr.Compare)
	own = slices.Compact(own)
	if slices.Equal(own, b.snap.own) {
		return
	}
	b.next.own, b.changed.ReservedAddresses = own, true
	b.hosts.Walk(func(host string, list []*Service) bool {
		if slices.ContainsFunc(list, (*Service).leadsByAddress) {
			b.beside[host] = true
		}
		return true
	})
}

// reservedServices are the Services in question. A gateway that somebody's entry names counts only where operators put gateways: whose
// address nobody may be led to is not for everybody to say.
func (b *batch) reservedServices() []Ref {
	def := Ref(b.next.Mesh.DefaultGateway)
	control := b.control
	if control.IsZero() {
		control = Ref{Namespace: b.next.Mesh.RootNamespace, Name: ControlPlaneService}
	}
	refs := []Ref{control, def}
	for ref := range b.next.exits {
		if ref.Namespace == b.next.Mesh.RootNamespace || ref.Namespace == def.Namespace {
			refs = append(refs, ref)
		}
	}
	return refs
}

// leadsByAddress says whether a gateway would connect to addresses that the service wrote: also one that only a VirtualService leads to.
func (s *Service) leadsByAddress() bool {
	return s.Dialled() || s.External && slices.ContainsFunc(s.Endpoints, func(e Endpoint) bool {
		_, err := netip.ParseAddr(e.Address)
		return err == nil
	})
}
