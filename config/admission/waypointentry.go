package admission

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/selection"
)

// unfrontedEntry says why no waypoint stands before the hosts of a ServiceEntry, and what to do; "" where one may.
func unfrontedEntry(o *config.Object, spec *networking.ServiceEntry) (why, fix string) {
	switch {
	case spec.Location == networking.ServiceEntry_MESH_INTERNAL:
		return "waypoints stand before Services and hosts outside, and what policies and routes say there would not be kept for the entry", "remove it, or make a Service of it"
	case slices.ContainsFunc(spec.Hosts, func(h string) bool { return strings.HasPrefix(h, "*") }):
		return "a pattern has no waypoint, which is told by a name which host it is asked for", "remove it, or write the patterns into an entry of their own"
	case spec.Resolution == networking.ServiceEntry_NONE && len(spec.Addresses) > 0:
		return "resolution NONE leads to the address that a client dials, which a waypoint is not told", "remove it, or give the entry resolution DNS or STATIC"
	case o.Annotations[GatewayAnnotation] == registry.ExitDirect:
		return "the hosts leave straight from pods, as the annotation " + GatewayAnnotation + " says, and a waypoint goes on to an egress gateway", "remove one of the two"
	case len(spec.ExportTo) > 0 && !slices.Contains(spec.ExportTo, "*"):
		return "the hosts are not exported to all, and a waypoint does not tell clients by that", "remove it, or export them to all and write an AuthorizationPolicy that targets the entry"
	}
	return "", ""
}

// entryFronted says whether a policy targets a ServiceEntry that is known to have a waypoint.
func (w *world) entryFronted(p selection.Workloads) bool {
	return slices.ContainsFunc(w.objects, func(o config.Object) bool {
		spec, is := o.Spec.(*networking.ServiceEntry)
		if !is || o.Namespace != p.Namespace || !slices.Contains(p.Entries, o.Name) {
			return false
		}
		use := o.Labels[gatewayapi.UseWaypointLabel]
		if use == "" {
			use = w.namespaces[o.Namespace].Labels[gatewayapi.UseWaypointLabel]
		}
		why, _ := unfrontedEntry(&o, spec)
		return use != "" && use != gatewayapi.NoWaypoint && why == ""
	})
}

// judgeEntryFronted says where a namespace's label asks for a waypoint that does not stand before an entry's hosts.
func (w *world) judgeEntryFronted(r *report, spec *networking.ServiceEntry) {
	value := w.namespaces[r.of.Namespace].Labels[gatewayapi.UseWaypointLabel]
	if value == "" || value == gatewayapi.NoWaypoint || r.of.Labels[gatewayapi.UseWaypointLabel] != "" || spec.Location == networking.ServiceEntry_MESH_INTERNAL {
		return
	}
	if why, _ := unfrontedEntry(&r.of, spec); why != "" {
		r.warn("spec", nil, "the namespace has the label "+strict.Join("metadata.labels", gatewayapi.UseWaypointLabel)+", but "+why+": they leave as if there were none, and what policies say there is not kept for them",
			"write an EgressPolicy, which counts for all of them; the label "+gatewayapi.UseWaypointLabel+": "+gatewayapi.NoWaypoint+" on the entry says that it is meant")
	}
}
