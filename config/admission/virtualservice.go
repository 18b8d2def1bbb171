package admission

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// meshGateway is the reserved name of all sidecars in gateways fields.
const meshGateway = "mesh"

// The bounds of what one VirtualService comes to: its hosts, and its matches for each of them at each gateway.
const (
	maxVirtualHosts = 4096
	maxRows         = route.MostRows
)

// rowsFor is how many matches proxies are told of for each host: all of them at each place where they count. A route without any counts as one.
func rowsFor(v *networking.VirtualService) (n int) {
	at := func(gateways []string) int {
		if len(gateways) == 0 {
			gateways = v.Gateways
		}
		return max(len(gateways), 1)
	}
	for _, h := range v.Http {
		n += countPlaces(h.Match, at, (*networking.HTTPMatchRequest).GetGateways)
	}
	for _, t := range v.Tls {
		n += countPlaces(t.Match, at, (*networking.TLSMatchAttributes).GetGateways)
	}
	for _, t := range v.Tcp {
		n += countPlaces(t.Match, at, (*networking.L4MatchAttributes).GetGateways)
	}
	return n
}

func countPlaces[M any](matches []M, at func([]string) int, gateways func(M) []string) (n int) {
	for _, m := range matches {
		n += at(gateways(m))
	}
	if len(matches) == 0 {
		n = at(nil)
	}
	return n
}

func (r *report) virtualService(v *networking.VirtualService) {
	delegate := len(v.Hosts) == 0
	if delegate && (len(v.Http) == 0 || len(v.Tls) > 0 || len(v.Tcp) > 0) {
		r.reject("spec.hosts", nil, "there is no host", "name at least one; only a delegate of another VirtualService, which has http routes alone, goes without")
	}
	if delegate && len(v.Gateways) > 0 {
		r.reject("spec.gateways", nil, "a delegate has no gateways of its own", "remove them, or name spec.hosts")
	}
	for i, g := range v.Gateways {
		r.gatewayName(at("spec.gateways", i), g, r.converted(routeSemantics))
	}
	atGateways := len(v.Gateways) > 0 && !slices.Contains(v.Gateways, meshGateway)
	r.virtualHosts(v, atGateways)
	if len(v.Http)+len(v.Tls)+len(v.Tcp) == 0 {
		r.reject("spec", nil, "there is no route", "write at least one of http, tls and tcp")
	}
	for i, h := range v.Http {
		r.httpRoute(at("spec.http", i), h, delegate, atGateways)
	}
	r.reached(v.Http)
	named := hostSetOf(v.Hosts)
	for i, t := range v.Tls {
		r.tlsRoute(at("spec.tls", i), t, named, atGateways)
	}
	for i, t := range v.Tcp {
		r.tcpRoute(at("spec.tcp", i), t)
	}
	r.exportTo("spec.exportTo", v.ExportTo)
}

// virtualHosts checks hosts, and that none covers another.
func (r *report) virtualHosts(v *networking.VirtualService, atGateways bool) {
	if len(v.Hosts) > maxVirtualHosts {
		r.reject("spec.hosts", len(v.Hosts), "too many hosts", fmt.Sprintf("write at most %d, and the rest into another VirtualService", maxVirtualHosts))
		return
	}
	if n := len(v.Hosts) * rowsFor(v); n > maxRows {
		r.reject("spec.hosts", len(v.Hosts), fmt.Sprintf("proxies are told of all matches for each of them, at each gateway, %d times in all", n), fmt.Sprintf("write at most %d in all, and the rest into other VirtualServices", maxRows))
	}
	before := len(r.findings)
	bySNI := atGateways && slices.ContainsFunc(v.Tls, func(t *networking.TLSRoute) bool {
		return slices.ContainsFunc(t.Match, func(m *networking.TLSMatchAttributes) bool { return len(m.SniHosts) > 0 })
	})
	for i, h := range v.Hosts {
		field := at("spec.hosts", i)
		switch {
		case isAddress(h), bySNI && serviceSNI(h):
		case h == "*" && !atGateways:
			r.reject(field, h, "would catch every host of every sidecar", "name the hosts, or only gateways in spec.gateways")
		default:
			r.hostPattern(field, h, true)
		}
	}
	if Refused(r.findings[before:]) {
		return
	}
	for i, h := range v.Hosts {
		if j := slices.IndexFunc(v.Hosts[:i], func(other string) bool { return host.Overlap(lowered(other), lowered(h)) }); j >= 0 {
			r.reject(at("spec.hosts", i), h, "is there twice: "+at("spec.hosts", j)+" covers it, or it that one", "remove one")
		}
	}
}

func lowered(h string) host.Name { return host.Name(strings.ToLower(strings.TrimSuffix(h, "."))) }

// serviceSNI says whether a name is of the form that sidecars send to gateways: "outbound_.80_._.web.shop.svc.cluster.local".
func serviceSNI(h string) bool {
	rest, ok := strings.CutPrefix(h, "outbound_.")
	return ok && rest != "" && rest[0] >= '0' && rest[0] <= '8' && len(h) <= 255
}

// gatewayName checks "NAME" and "NAMESPACE/NAME". dotted is whether the second may be more than a label: what Istio makes of the Gateway API's has such
// names. Three parts name no Gateway, but a listener of the Gateway API's, which lets in what it lets in itself.
func (r *report) gatewayName(field, value string, dotted bool) {
	ns, name, qualified := strings.Cut(value, "/")
	ok := isLabel(ns) && (isLabel(name) || dotted && name != "" && !strings.Contains(name, "/"))
	if !qualified {
		_, err := host.ParseExact(value)
		ok = err == nil
	}
	if !ok {
		r.reject(field, value, "is no Gateway's name", `write NAME, NAMESPACE/NAME or "mesh"`)
	}
}

func (r *report) tlsRoute(field string, t *networking.TLSRoute, hosts hostSet, atGateways bool) {
	if len(t.Match) == 0 {
		r.reject(at(field, "match"), nil, "a TLS route needs a match", "write at least sniHosts")
	}
	for i, m := range t.Match {
		where := at(field, "match", i)
		if len(m.SniHosts) == 0 {
			r.reject(at(where, "sniHosts"), nil, "there is no SNI host", "name at least one of spec.hosts")
		}
		for j, s := range m.SniHosts {
			r.sniHost(at(where, "sniHosts", j), s, hosts, atGateways)
		}
		r.l4Match(where, m.DestinationSubnets, m.Port, m.Gateways, m.SourceLabels)
	}
	r.destinations(at(field, "route"), t.Route)
}

func (r *report) sniHost(field, s string, hosts hostSet, atGateways bool) {
	if _, err := netip.ParseAddr(s); err == nil {
		r.warn(field, s, "is an IP address, which clients do not send as a name", "name the hosts")
		return
	}
	if !host.Partial(s) && !(atGateways && serviceSNI(s)) {
		if _, err := host.ParsePattern(s); err != nil {
			r.hostError(field, s, err)
			return
		}
	}
	if !hosts.covers(lowered(s)) {
		r.reject(field, s, "is none of spec.hosts", "name it in spec.hosts too")
	}
}

func (r *report) tcpRoute(field string, t *networking.TCPRoute) {
	for j, m := range t.Match {
		r.l4Match(at(field, "match", j), m.DestinationSubnets, m.Port, m.Gateways, m.SourceLabels)
		if _, err := netip.ParsePrefix(m.SourceSubnet); m.SourceSubnet != "" && err != nil && !isAddress(m.SourceSubnet) {
			r.warn(at(field, "match", j, "sourceSubnet"), m.SourceSubnet, "is neither an IP address nor a CIDR block, so nothing matches", `write it as in "10.0.0.0/8"`)
		}
	}
	r.destinations(at(field, "route"), t.Route)
}

func (r *report) l4Match(field string, subnets []string, port uint32, gateways []string, labels map[string]string) {
	for i, s := range subnets {
		r.prefix(at(field, "destinationSubnets", i), s)
	}
	r.matchPlace(field, port, gateways, labels)
}

// matchPlace checks what matches of all protocols have.
func (r *report) matchPlace(field string, port uint32, gateways []string, labels map[string]string) {
	if port != 0 {
		r.port(at(field, "port"), port)
	}
	for i, g := range gateways {
		r.gatewayName(at(field, "gateways", i), g, false)
	}
	r.labels(at(field, "sourceLabels"), labels)
}

func (r *report) destinations(field string, routes []*networking.RouteDestination) {
	if len(routes) == 0 {
		r.reject(field, nil, "there is no destination", "write at least one, as in [{destination: {host: HOST}}]")
	}
	weights := make([]int32, len(routes))
	for i, d := range routes {
		weights[i] = d.Weight
		r.destination(at(field, i, "destination"), d.Destination)
	}
	r.weights(field, weights)
}

// weights rejects negative ones, and several destinations without any weight among them.
func (r *report) weights(field string, weights []int32) {
	var sum int64
	for i, w := range weights {
		if w < 0 {
			r.reject(at(field, i, "weight"), w, "is negative", "write a number from 0 on")
		}
		sum += int64(w)
	}
	if len(weights) > 1 && sum == 0 {
		r.reject(field, nil, "the weights' sum is 0", "give at least one destination a weight")
	}
}

func (r *report) destination(field string, d *networking.Destination) {
	if d == nil {
		r.reject(field, nil, "it is missing", "write it, as in {host: HOST, port: {number: 443}}")
		return
	}
	if r.converted(routeSemantics) {
		return
	}
	// Wildcards name the ServiceEntry that registers them.
	r.hostPattern(at(field, "host"), d.Host, false)
	r.subsetName(at(field, "subset"), d.Subset)
	if d.Port != nil {
		r.port(at(field, "port.number"), d.Port.Number)
	}
}

func (r *report) subsetName(field, name string) {
	if name != "" && !isLabel(name) {
		r.reject(field, name, "is no subset's name", fmt.Sprintf("use the name of a subset of the host's DestinationRule, at most %d letters, digits and hyphens", 63))
	}
}
