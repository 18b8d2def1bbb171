package admission

import networking "istio.io/api/networking/v1alpha3"

const (
	gets503  = "what is led there gets 503"
	isClosed = "what is led there is closed"
	noCopy   = "no copy is sent"
)

// portedRoutes are all routes of a VirtualService.
func portedRoutes(v *networking.VirtualService) (out []portedRoute) {
	for i, h := range v.Http {
		x := portedRoute{field: at("spec.http", i), kind: "requests", protocol: "HTTP", takes: takesRequests}
		for _, m := range h.Match {
			x.places = append(x.places, routePlace{port: m.Port, gateways: m.Gateways, namespace: m.SourceNamespace, labels: m.SourceLabels, authority: m.Authority})
		}
		for j, d := range h.Route {
			x.destinations = append(x.destinations, portedDestination{at(x.field, "route", j, "destination"), d.Destination, gets503})
		}
		if h.Mirror != nil {
			x.destinations = append(x.destinations, portedDestination{at(x.field, "mirror"), h.Mirror, noCopy})
		}
		for j, m := range h.Mirrors {
			x.destinations = append(x.destinations, portedDestination{at(x.field, "mirrors", j, "destination"), m.Destination, noCopy})
		}
		out = append(out, x.somewhere())
	}
	for i, t := range v.Tls {
		x := portedRoute{field: at("spec.tls", i), kind: "TLS that passes", protocol: "TLS and HTTPS", takes: takesTLS}
		for _, m := range t.Match {
			x.places = append(x.places, routePlace{port: m.Port, gateways: m.Gateways, subnets: m.DestinationSubnets, namespace: m.SourceNamespace, labels: m.SourceLabels})
		}
		out = append(out, x.withConnections(t.Route).somewhere())
	}
	for i, t := range v.Tcp {
		x := portedRoute{field: at("spec.tcp", i), kind: "connections that nobody reads", protocol: "TCP", takes: takesTCP}
		for _, m := range t.Match {
			x.places = append(x.places, routePlace{port: m.Port, gateways: m.Gateways, subnets: m.DestinationSubnets, namespace: m.SourceNamespace, labels: m.SourceLabels})
		}
		out = append(out, x.withConnections(t.Route).somewhere())
	}
	return out
}

func (x portedRoute) withConnections(to []*networking.RouteDestination) portedRoute {
	for j, d := range to {
		x.destinations = append(x.destinations, portedDestination{at(x.field, "route", j, "destination"), d.Destination, isClosed})
	}
	return x
}

// somewhere has a route without matches count everywhere.
func (x portedRoute) somewhere() portedRoute {
	if len(x.places) == 0 {
		x.places = []routePlace{{}}
	}
	return x
}
