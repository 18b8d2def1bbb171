package translate

import (
	"cmp"
	"reflect"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/inbound"
)

// What workloads let in, and what is recorded of it, differs by the ports of their Services, by PeerAuthentications and Telemetries: nearly each has its own; so do authorizers that
// policies have asked about it, at gateways, too. So it is a view of a few resources over that of the proxies that are the same otherwise, and no host
// is looked at for it.

// isOverlay says whether the class is one that is over another in this way.
func (c Class) isOverlay() bool {
	return c.Inbound != "" || c.Asks != "" || c.Kind == Sidecar && c.Recorded != ""
}

// records is what is recorded of what comes in: sallyport.audit.mesh, or a Telemetry's word.
func (c Class) records(s *registry.Snapshot) string { return cmp.Or(c.Recorded, s.Mesh.Audit.Mesh) }

// overlayInputs is what such a view's own resources are made from.
type overlayInputs struct {
	Inbound inbound.Inputs // of sidecars
	Asked   askedFrom
	sidecar bool
}

// Resources are those.
func (in overlayInputs) Resources() []*resource.Resource {
	var out []*resource.Resource
	if in.sidecar {
		out = in.Inbound.Resources()
	}
	return append(out, in.Asked.resources()...)
}

// inboundInputs is what the way in of sidecars is made from that let this in.
func inboundInputs(s *registry.Snapshot, c Class) inbound.Inputs {
	return inbound.Inputs{
		Inbound: resolve.InboundOf(c.Inbound), Trust: envoy.TrustsOf(s.Mesh), IPv6: c.IPv6, Detect: cmp.Or(s.Mesh.ProtocolDetectionTimeout, detectDefault),
		Log: c.records(s),
	}
}

// buildOverlay makes the view of a class over the one that is the same but for what is let in.
func buildOverlay(common *View, s *registry.Snapshot, c Class) *View {
	v := common.over(c)
	v.uses, v.base, v.from = uses{}, nil, nil
	e := newEdit(v)
	e.under = common
	return inward(e, s).done()
}

// following begins the next view over one that was updated already, of which these resources differ.
func (v *View) following(common *View, differ []resource.Ref) *edit {
	e := newEdit(v)
	e.hosts, e.buckets, e.under = v.hosts.EditOnto(common.hosts), v.buckets.EditOnto(common.buckets), common
	for i := range e.sets {
		e.sets[i] = *v.resources[i].EditOnto(common.resources[i])
	}
	for _, ref := range differ {
		if !v.resources[ref.Type].Says(ref.Name) {
			e.changed[ref] = true
		}
	}
	return e
}

// inward gives a view being made its class's own way in.
func inward(e *edit, s *registry.Snapshot) *edit {
	from := overlayInputs{Asked: askedOf(s, e.next.Class), sidecar: e.next.Class.Kind == Sidecar}
	if from.sidecar {
		from.Inbound = inboundInputs(s, e.next.Class)
	}
	if reflect.DeepEqual(e.next.from, baseInputs(from)) {
		return e
	}
	resources := from.Resources()
	e.replace(e.next.base, resources)
	e.next.base, e.next.from = resources, from
	return e
}
