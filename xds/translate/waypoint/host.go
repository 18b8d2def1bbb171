package waypoint

import (
	"net/netip"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/authzfilter"
	"github.com/sallyport/sallyport/xds/translate/outbound"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// Host is what the part of a Service is made from.
type Host struct {
	outbound.Host
	Before   bool         // the waypoint stands before it; otherwise routes lead there
	Named    bool         // by HBONE, which says its name or an address alone, it is meant
	Leads    []string     // the hosts that its routes lead to, beside itself
	Refused  []netip.Addr // that the waypoint does not connect to, sorted
	Policies authz.Set    // that target the Service, or the waypoint
	Asked    Asked        // by them
}

// Part is its share: clusters, and, of one that the waypoint stands before, its routes and its rows in the table of HBONE.
func (h *Host) Part() *part.Part {
	own := h.Host.Part()
	out := part.New()
	for _, r := range own.Resources {
		switch {
		case r.Type == resource.Cluster, r.Type == resource.Endpoints:
			out.Resources = append(out.Resources, r)
		case r.Type == resource.VirtualHost && h.Before:
			out.Resources = append(out.Resources, h.table(r)...)
		}
	}
	if !h.Before {
		return out
	}
	out.Leads = h.Leads
	if h.outside() {
		out.Gateways = own.Gateways
	}
	for _, port := range h.taken() {
		out.Fronts = append(out.Fronts, h.front(port))
	}
	return out
}

// taken are the ports that a waypoint takes connections for.
func (h *Host) taken() []registry.Port {
	return slices.DeleteFunc(slices.Clone(h.Service.Ports), func(p registry.Port) bool { return p.Protocol == registry.UDP })
}

func (h *Host) front(port registry.Port) part.Front {
	return part.Front{
		Host: h.Service.Host, In: resolve.FrontedIn(h.Service), Port: port.Number, HTTP: port.Protocol.IsHTTP(), TLS: port.Protocol == registry.TLS,
		Outside: h.outside(), Closed: h.closed(port), Policies: names(h.Policies),
	}
}

// Endpoints are those of a Service, as a waypoint reaches them.
func (h *Host) Endpoints(list []registry.Endpoint) []*resource.Resource {
	return h.Host.Endpoints(resolve.Connectable(registry.WaypointEndpoints(list), h.Refused))
}

// closed says whether nothing goes to a port of connections: its far end is closed, or a route leads its connections elsewhere, which is not kept here.
func (h *Host) closed(port registry.Port) bool {
	if port.Protocol.IsHTTP() {
		return false // its routes say so
	}
	if _, closed := h.Restrictions.Closed[port.Number]; closed {
		return true
	}
	for _, r := range h.Routes(port) {
		if r.L4 != nil {
			return true
		}
	}
	return false
}

// table is a port's routes of requests: those of a sidecar's row, whatever the requests' Host, since the connection says which Service it is for.
func (h *Host) table(row *resource.Resource) []*resource.Resource {
	vh := &routev3.VirtualHost{}
	if err := proto.Unmarshal(row.Value(), vh); err != nil {
		panic("translate: " + row.Name + " does not unmarshal: " + err.Error()) // it was made here
	}
	for _, port := range h.Service.Ports {
		if row.Name != wire.VhostName(wire.RouteName(port.Number), h.Service.Host) || !port.Protocol.IsHTTP() {
			continue
		}
		vh.Name, vh.Domains = h.Service.Host, []string{"*"}
		vh.Routes = slices.DeleteFunc(vh.Routes, envoy.IsAnswer)
		envoy.RefuseOddHosts(vh)
		name := h.front(port).Name()
		rc := &routev3.RouteConfiguration{
			Name: name, VirtualHosts: []*routev3.VirtualHost{vh}, ValidateClusters: wrapperspb.Bool(false),
			RequestHeadersToRemove:         []string{"x-envoy-original-path", "x-envoy-decorator-operation"},
			MaxDirectResponseBodySizeBytes: wrapperspb.UInt32(envoy.MaxBody),
		}
		if h.outside() { // nobody outside is told
			rc.RequestHeadersToRemove = append([]string{"x-forwarded-proto"}, rc.RequestHeadersToRemove...)
		}
		rc.TypedPerFilterConfig = h.leaves(port)
		if len(h.Policies) > 0 {
			if rc.TypedPerFilterConfig == nil {
				rc.TypedPerFilterConfig = map[string]*anypb.Any{}
			}
			rc.TypedPerFilterConfig[envoy.FilterAuthzRequests] = envoy.AuthorizationOverride(authzfilter.Filter(h.Policies, func(set authz.Set) *envoy.OnMatch {
				return authzfilter.Requests(set, ClientInputs(h.Trust))
			}))
			if asked := h.Asked.requests(h.Policies, ClientInputs(h.Trust)); asked != nil {
				rc.TypedPerFilterConfig[envoy.FilterCustom] = envoy.AuthorizationOverride(asked)
			}
		}
		return []*resource.Resource{envoy.Seal(resource.Route, name, rc)}
	}
	return nil
}

// NotLed is why a port of connections is closed at a waypoint.
const NotLed = "routes of connections (TCPRoute, TLSRoute, or tcp and tls of a VirtualService) are not kept by waypoints, or nothing may go to the port"

// names are the policies by which a chain is known.
func names(set authz.Set) string {
	var out []string
	for _, p := range set {
		out = append(out, p.Key.Namespace+"/"+p.Key.Name)
	}
	return strings.Join(out, ",")
}
