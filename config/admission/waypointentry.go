package admission

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/selection"
)

// unfrontedHost is a host of an entry that no waypoint stands before.
type unfrontedHost struct{ host, why, fix string }

// unfrontedHosts are those of an entry, as its own words and its namespace's say; all says that there are no others. Where nothing is known of the
// mesh the namespace is nil, and the settings are the usual ones.
func unfrontedHosts(o *config.Object, spec *networking.ServiceEntry, namespace map[string]string, cfg *mesh.Config) (out []unfrontedHost, all bool) {
	list := registry.FromEntry(o, spec, namespace[registry.GatewayAnnotation], cfg)
	for _, svc := range list {
		if why, fix := svc.Unfronted(); why != "" {
			out = append(out, unfrontedHost{svc.Host, why, fix})
		}
	}
	return out, len(out) == len(list)
}

// entryFronted says whether a policy targets a ServiceEntry of which a host is known to have a waypoint.
func (w *world) entryFronted(p selection.Workloads) bool {
	return slices.ContainsFunc(w.objects, func(o config.Object) bool {
		spec, is := o.Spec.(*networking.ServiceEntry)
		if !is || o.Namespace != p.Namespace || !slices.Contains(p.Entries, o.Name) {
			return false
		}
		ns := w.namespaces[o.Namespace]
		_, all := unfrontedHosts(&o, spec, ns.Annotations, &w.cfg)
		return !all && w.servesServices(registry.RequestedWaypoint(o.Namespace, o.Labels, ns.Labels))
	})
}

// judgeEntryFronted says where a label asks for a waypoint that does not stand before an entry's hosts, as its namespace and the mesh have them.
func (w *world) judgeEntryFronted(r *report, spec *networking.ServiceEntry) {
	ns := w.namespaces[r.of.Namespace]
	if registry.RequestedWaypoint(r.of.Namespace, r.of.Labels, ns.Labels).IsZero() || spec.Location == networking.ServiceEntry_MESH_INTERNAL {
		return
	}
	field, own := strict.Join("metadata.labels", gatewayapi.UseWaypointLabel), r.of.Labels[gatewayapi.UseWaypointLabel]
	list, all := unfrontedHosts(&r.of, spec, ns.Annotations, &w.cfg)
	var alone []unfrontedHost // for which it is refused by itself
	if own != "" {
		alone, _ = unfrontedHosts(&r.of, spec, nil, usual)
	}
	said := map[string]bool{}
	for _, h := range list {
		if said[h.why] {
			continue
		}
		said[h.why] = true
		switch whose := h.host + " leaves"; {
		case slices.Contains(alone, h):
		case own != "":
			r.warn(field, own, h.why+": "+h.host+" is closed", h.fix)
		default:
			if all {
				whose = "they leave"
			}
			r.warn("spec", nil, "the namespace has the label "+field+", but "+h.why+": "+whose+" as if there were none, and what policies say there is not kept then",
				"write an EgressPolicy, which counts for all hosts; the label "+gatewayapi.UseWaypointLabel+": "+gatewayapi.NoWaypoint+" on the entry says that it is meant")
		}
	}
	if !all {
		w.judgeWaypointThere(r)
	}
}

// usual are the settings of a mesh that says nothing.
var usual = func() *mesh.Config {
	cfg := mesh.Default()
	return &cfg
}()
