package registrytest

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// meshRoutes are users' routes of a Mesh's hosts, each to one destination at a time: which of several gets a request is chance.
func (w *World) meshRoutes() (ns string, v *networking.VirtualService) {
	ns, host := w.registered()
	if w.rand.IntN(4) == 0 {
		ns = pick(w, meshNamespaces)
	}
	v = &networking.VirtualService{Hosts: []string{host}, ExportTo: pick(w, [][]string{nil, nil, nil, {"."}, {"team-b"}})}
	switch w.rand.IntN(5) {
	case 0:
		m := &networking.TLSMatchAttributes{SniHosts: v.Hosts, Port: pick(w, []uint32{0, 443, 5432})}
		v.Tls = []*networking.TLSRoute{{Match: []*networking.TLSMatchAttributes{m}, Route: []*networking.RouteDestination{{Destination: w.meshDestination()}}}}
	case 1:
		l := &networking.L4MatchAttributes{Port: pick(w, []uint32{0, 5432, 80})}
		v.Tcp = []*networking.TCPRoute{{Match: []*networking.L4MatchAttributes{l}, Route: []*networking.RouteDestination{{Destination: w.meshDestination()}}}}
	}
	for range w.rand.IntN(4) {
		v.Http = append(v.Http, w.meshHTTPRoute())
	}
	if len(v.Http)+len(v.Tls)+len(v.Tcp) == 0 {
		v.Http = []*networking.HTTPRoute{w.meshHTTPRoute()}
	}
	return ns, v
}

// RoutedHosts are registered in plain words, where a Mesh has routes: most are about these.
var RoutedHosts = []string{"r.example.org", "s.example.org", "*.t.example.org"}

// routedEntries register them, each in a namespace of its own.
func (w *World) routedEntries() {
	for i, h := range RoutedHosts {
		e := &networking.ServiceEntry{Hosts: []string{h}, Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS, Ports: []*networking.ServicePort{
			{Number: 80, Name: "http", Protocol: "HTTP"}, {Number: 443, Name: "tls", Protocol: "TLS"}, {Number: 8080, Name: "http2", Protocol: "HTTP2"}, {Number: 5432, Name: "tcp", Protocol: "TCP"},
		}}
		if h[0] == '*' {
			e.Resolution = networking.ServiceEntry_NONE
		}
		var annotations map[string]string
		if w.rand.IntN(2) == 0 {
			annotations = map[string]string{registry.GatewayAnnotation: registry.ExitDirect}
		}
		w.put(w.aged(w.made(config.KindServiceEntry, meshNamespaces[i+1], "routed", e, annotations)))
	}
}

// registered is a host that the world has, and whose it is.
func (w *World) registered() (ns, host string) {
	if i := w.rand.IntN(4); i < len(RoutedHosts) {
		return meshNamespaces[i+1], RoutedHosts[i]
	}
	all := []string{"default/a.test"}
	for key, o := range w.Objects {
		switch spec := o.Spec.(type) {
		case *networking.ServiceEntry:
			for _, h := range spec.Hosts {
				all = append(all, key.Namespace+"/"+h)
			}
		case *corev1.Service:
			all = append(all, key.Namespace+"/"+key.Name+"."+key.Namespace+".svc.cluster.local")
		}
	}
	slices.Sort(all)
	ns, host, _ = strings.Cut(pick(w, all), "/")
	return ns, host
}

func (w *World) meshHTTPRoute() *networking.HTTPRoute {
	h := &networking.HTTPRoute{}
	for range w.rand.IntN(3) {
		m := &networking.HTTPMatchRequest{}
		switch w.rand.IntN(7) {
		case 0:
			m.Uri = &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: pick(w, []string{"/", "/api", "/b"})}}
		case 1:
			m.Uri = &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: pick(w, []string{"/api", "/b"})}}
		case 2:
			m.Uri = &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: pick(w, []string{"/api/.*", "/[ab]"})}}
		case 3:
			m.Method = &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: pick(w, []string{"GET", "POST"})}}
		case 4:
			m.Port = pick(w, []uint32{80, 443, 8080})
		case 5:
			m.QueryParams = map[string]*networking.StringMatch{"q": {MatchType: &networking.StringMatch_Exact{Exact: "1"}}}
		case 6:
			m.SourceLabels = map[string]string{"istio": "app"}
		}
		h.Match = append(h.Match, m)
	}
	switch w.rand.IntN(7) {
	case 0:
		h.Redirect = &networking.HTTPRedirect{Uri: "/elsewhere"}
	case 1:
		h.DirectResponse = &networking.HTTPDirectResponse{Status: 418}
	case 2:
		h.Fault = &networking.HTTPFaultInjection{Abort: &networking.HTTPFaultInjection_Abort{ErrorType: &networking.HTTPFaultInjection_Abort_HttpStatus{HttpStatus: 503}, Percentage: &networking.Percent{Value: 100}}}
		h.Route = []*networking.HTTPRouteDestination{{Destination: w.meshDestination()}}
	case 3:
		h.Rewrite = &networking.HTTPRewrite{Uri: "/new"}
		h.Route = []*networking.HTTPRouteDestination{{Destination: w.meshDestination()}}
	default:
		h.Route = []*networking.HTTPRouteDestination{{Destination: w.meshDestination()}}
		if w.rand.IntN(4) == 0 {
			h.Route[0].Weight = 100
			h.Route = append(h.Route, &networking.HTTPRouteDestination{Destination: w.meshDestination()})
		}
	}
	return h
}

func (w *World) meshDestination() *networking.Destination {
	_, host := w.registered()
	d := &networking.Destination{Host: strings.Replace(host, "*.", "q.", 1)}
	if w.rand.IntN(12) == 0 {
		d.Host = "nobody.test"
	}
	if w.rand.IntN(3) == 0 {
		d.Port = &networking.PortSelector{Number: pick(w, []uint32{80, 443, 8080, 5432})}
	}
	return d
}
