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
	if why, _ := s.Unfronted(); why != "" && o.Labels[gatewayapi.UseWaypointLabel] == "" {
		return Ref{}
	}
	return RequestedWaypoint(o.Namespace, o.Labels, b.next.namespaces[o.Namespace])
}

// Unfronted says why no waypoint stands before a host that an entry registers, and what to do; "" where one may.
func (s *Service) Unfronted() (why, fix string) {
	switch {
	case !s.External:
		return "waypoints stand before Services and hosts outside, and what policies and routes say there would not be kept for the entry", "remove it, or make a Service of it"
	case s.Wildcard():
		return "a pattern has no waypoint, which is told by a name which host it is asked for", "remove it, or write the patterns into an entry of their own"
	case s.Resolution == None && len(s.Addresses) > 0:
		return "resolution NONE leads to the address that a client dials, which a waypoint is not told", "remove it, or give the entry resolution DNS or STATIC"
	case s.Exit.IsZero():
		return "the host leaves straight from pods (annotation " + GatewayAnnotation + "), and a waypoint goes on to an egress gateway", "remove it, or let the host leave by an egress gateway"
	case !s.ExportTo.All:
		return "the host is not exported to all, and a waypoint does not tell clients by that", "remove it, or export the host to all and write an AuthorizationPolicy that targets the entry"
	}
	return "", ""
}

func (s *Snapshot) entryWaypoint(svc *Service) WaypointUse {
	why, _ := svc.Unfronted()
	if why == "" {
		_, why = gatewayapi.Waypoint(s.World(), svc.Waypoint.Namespace, svc.Waypoint.Name, svc.Namespace)
	}
	return WaypointUse{svc.Waypoint, why}
}

// FrontedAt gives the registrations of a host outside that a waypoint stands before, in order: of each namespace the one that others see, if that asks for it. So what one
// registers changes nothing of what becomes of another's there. A name of the cluster's own is its Service's.
func (s *Snapshot) FrontedAt(waypoint Ref, host string) (out []*Service) {
	list := s.Services(host)
	if slices.ContainsFunc(list, func(o *Service) bool { return o.Source.Kind == config.KindService }) {
		return nil
	}
	seen := map[string]bool{}
	for _, svc := range list {
		if seen[svc.Namespace] || !svc.ExportTo.All {
			continue
		}
		seen[svc.Namespace] = true
		if why, _ := svc.Unfronted(); why == "" && svc.Waypoint == waypoint {
			out = append(out, svc)
		}
	}
	return out
}

// registeredBy says whether an object registers the service, or one of its ports.
func (s *Service) registeredBy(key config.Key) bool {
	return s.Source == key || slices.ContainsFunc(s.Ports, func(p Port) bool { return p.From == key })
}

// Covers says whether a registration is another one, or counts as one with it, by a port that it has from that: policies for either are asked then.
func (s *Service) Covers(o *Service) bool {
	return s.registeredBy(o.Source)
}

// noteEntryWaypoint notes that a namespace's labels, for which a waypoint of another may ask, are others.
func (b *batch) noteEntryWaypoint(entry config.Key) {
	for host := range b.hostsOf.Get(entry).All() {
		list, _ := b.hosts.Get(host)
		b.changed.Waypoints = b.changed.Waypoints || slices.ContainsFunc(list, func(s *Service) bool {
			return s.Source == entry && !s.Waypoint.IsZero() && s.Waypoint.Namespace != entry.Namespace
		})
	}
}
