package admission

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/serviceentry/host"
)

// meshGateway is the reserved name of all sidecars in gateways fields.
const meshGateway = "mesh"

func (r *report) virtualService(v *networking.VirtualService) {
	delegate := len(v.Hosts) == 0
	if delegate && (len(v.Http) == 0 || len(v.Tls) > 0 || len(v.Tcp) > 0) {
		r.reject("spec.hosts", nil, "there is no host", "name at least one; only a delegate of another VirtualService, which has http routes alone, goes without")
	}
	if delegate && len(v.Gateways) > 0 {
		r.reject("spec.gateways", nil, "a delegate has no gateways of its own", "remove them, or name spec.hosts")
	}
	appliesToMesh := len(v.Gateways) == 0
	for i, g := range v.Gateways {
		r.gatewayName(at("spec.gateways", i), g)
		appliesToMesh = appliesToMesh || g == meshGateway
	}
	r.virtualHosts(v.Hosts, appliesToMesh)
	if len(v.Http)+len(v.Tls)+len(v.Tcp) == 0 {
		r.reject("spec", nil, "there is no route", "write at least one of http, tls and tcp")
	}
	for i, h := range v.Http {
		r.httpRoute(at("spec.http", i), h, delegate)
	}
	for i, t := range v.Tls {
		r.tlsRoute(at("spec.tls", i), t, v.Hosts)
	}
	for i, t := range v.Tcp {
		field := at("spec.tcp", i)
		for j, m := range t.Match {
			r.l4Match(at(field, "match", j), m.DestinationSubnets, m.Port, m.Gateways, m.SourceNamespace)
			if m.SourceSubnet != "" {
				r.prefix(at(field, "match", j, "sourceSubnet"), m.SourceSubnet)
			}
		}
		r.destinations(at(field, "route"), t.Route)
	}
	r.exportTo("spec.exportTo", v.ExportTo)
}

func (r *report) virtualHosts(hosts []string, appliesToMesh bool) {
	seen := map[string]bool{}
	for i, h := range hosts {
		field := at("spec.hosts", i)
		name := strings.ToLower(strings.TrimSuffix(h, "."))
		switch _, err := host.ParsePattern(h); {
		case h == "*" && appliesToMesh:
			r.reject(field, h, "would catch every host of every sidecar", "name the hosts, or only gateways in spec.gateways")
		case err != nil && !isAddress(h):
			r.hostError(field, h, err)
		case seen[name]:
			r.reject(field, h, "the host is there twice", "remove one")
		}
		seen[name] = true
	}
}

// gatewayName checks "NAME" and "NAMESPACE/NAME".
func (r *report) gatewayName(field, value string) {
	ns, name, qualified := strings.Cut(value, "/")
	if !qualified {
		ns, name = "x", value
	}
	if (ns != "." && len(validation.IsDNS1123Label(ns)) > 0) || len(validation.IsDNS1123Subdomain(name)) > 0 {
		r.reject(field, value, "is no Gateway's name", `write NAME, NAMESPACE/NAME or "mesh"`)
	}
}

func (r *report) tlsRoute(field string, t *networking.TLSRoute, hosts []string) {
	if len(t.Match) == 0 {
		r.reject(at(field, "match"), nil, "a TLS route needs a match", "write at least sniHosts")
	}
	for i, m := range t.Match {
		where := at(field, "match", i)
		if len(m.SniHosts) == 0 {
			r.reject(at(where, "sniHosts"), nil, "there is no SNI host", "name at least one of spec.hosts")
		}
		for j, s := range m.SniHosts {
			n, err := host.ParsePattern(s)
			if err != nil {
				r.hostError(at(where, "sniHosts", j), s, err)
			} else if !covered(n, hosts) {
				r.reject(at(where, "sniHosts", j), s, "is none of spec.hosts", "name it in spec.hosts too")
			}
		}
		r.l4Match(where, m.DestinationSubnets, m.Port, m.Gateways, m.SourceNamespace)
	}
	r.destinations(at(field, "route"), t.Route)
}

// covered says whether one of the hosts matches n.
func covered(n host.Name, hosts []string) bool {
	for _, h := range hosts {
		if p, err := host.ParsePattern(h); err == nil && host.Matches(p, n) {
			return true
		}
	}
	return false
}

func (r *report) l4Match(field string, subnets []string, port uint32, gateways []string, ns string) {
	for i, s := range subnets {
		r.prefix(at(field, "destinationSubnets", i), s)
	}
	r.matchPlace(field, port, gateways, ns)
}

// matchPlace checks what matches of all protocols have.
func (r *report) matchPlace(field string, port uint32, gateways []string, ns string) {
	if port != 0 {
		r.port(at(field, "port"), port)
	}
	for i, g := range gateways {
		r.gatewayName(at(field, "gateways", i), g)
	}
	if ns != "" && len(validation.IsDNS1123Label(ns)) > 0 {
		r.reject(at(field, "sourceNamespace"), ns, "is no namespace", "write a namespace's name")
	}
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
	// Istio takes wildcards here: they name the ServiceEntry that registers them.
	if _, err := host.Parse(d.Host); err != nil && !isAddress(d.Host) {
		r.hostError(at(field, "host"), d.Host, err)
	}
	if d.Subset != "" && len(validation.IsDNS1123Label(d.Subset)) > 0 {
		r.reject(at(field, "subset"), d.Subset, "is no subset's name", "use the name of a subset of the host's DestinationRule")
	}
	if d.Port != nil {
		r.port(at(field, "port.number"), d.Port.Number)
	}
}
