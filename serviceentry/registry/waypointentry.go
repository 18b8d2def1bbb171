package registry

import (
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// Which hosts outside have a waypoint. It goes on to their egress gateway, and nowhere else.

// entryWaypoint is the waypoint that an entry asks for, for one of its hosts. A namespace's label is not about hosts that no waypoint stands before;
// an entry's own is, and closes them.
func (b *batch) entryWaypoint(o *config.Object, s *Service) Ref {
	if o.Labels[gatewayapi.UseWaypointLabel] == "" && s.unfronted() != "" {
		return Ref{}
	}
	return waypointAsked(o.Namespace, o.Labels, b.next.namespaces[o.Namespace])
}

// unfronted says why no waypoint stands before what an entry registers; "" where one may.
func (s *Service) unfronted() string {
	switch {
	case !s.External:
		return "waypoints stand before Services, and hosts outside"
	case s.Wildcard():
		return "the host is a pattern, and a waypoint is told which host it is asked for by a name"
	case s.Resolution == None && len(s.Addresses) > 0:
		return "resolution NONE leads to the address that a client dials, which a waypoint is not told"
	case s.Exit.IsZero():
		return "the host leaves straight from pods, and a waypoint goes on to an egress gateway"
	case !s.ExportTo.All:
		return "the host is not exported to all, and a waypoint does not tell clients by that"
	}
	return ""
}

func (s *Snapshot) entryWaypoint(svc *Service) WaypointUse {
	why := svc.unfronted()
	if why == "" {
		_, why = gatewayapi.Waypoint(s.World(), svc.Waypoint.Namespace, svc.Waypoint.Name, svc.Namespace)
	}
	return WaypointUse{svc.Waypoint, why}
}

// registeredBy says whether a ServiceEntry of this name, in the service's namespace, registers it, or one of its ports.
func (s *Service) registeredBy(entry string) bool {
	return s.Source.Name == entry || slices.ContainsFunc(s.Ports, func(p Port) bool { return p.From.Name == entry })
}

// Covers says whether a registration is another one, or counts as one with it, by a port that it has from that: policies for either are asked then.
func (s *Service) Covers(o *Service) bool {
	return s.Source == o.Source || slices.ContainsFunc(s.Ports, func(p Port) bool { return p.From == o.Source })
}

// noteEntryWaypoint notes that a namespace's labels, for which a waypoint of another may ask, are others.
func (b *batch) noteEntryWaypoint(entry config.Key) {
	for _, host := range b.hostsOf[entry] {
		list, _ := b.hosts.Get(host)
		b.changed.Waypoints = b.changed.Waypoints || slices.ContainsFunc(list, func(s *Service) bool {
			return s.Source == entry && !s.Waypoint.IsZero() && s.Waypoint.Namespace != entry.Namespace
		})
	}
}
