package registrytest

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	typev1beta1 "istio.io/api/type/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
)

// EnteringLabels are those of the pods of Entering's ingress gateway of Istio's API, in the namespace istio-system; those of the Gateway API are of the
// Gateway EnteringGateway in the namespace default.
var EnteringLabels = map[string]string{"istio": "in"}

// EnteringGateway is the Gateway of the Gateway API.
const EnteringGateway = "door"

// EnteringHosts are names that ingress gateways are asked for, and patterns over them.
var EnteringHosts = []string{"a.in.test", "b.in.test", "c.b.in.test", "*.in.test", "*.b.in.test", "*"}

var enteringNamespaces = []string{"default", "team-a", "istio-system"}

// Entering adds ingress gateways to a mesh, what they open, and what they lead to.
func (w *World) Entering() {
	if w.rand.IntN(8) > 0 {
		s := &corev1.Service{}
		s.Spec.ClusterIP, s.Spec.Selector = w.clusterIP(), EnteringLabels
		for _, p := range []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "https", Port: 443}, {Name: "tcp", Port: 5432}} {
			if p.TargetPort = intstr.FromInt32(p.Port + pick(w, []int32{0, 8000})); w.rand.IntN(6) > 0 {
				s.Spec.Ports = append(s.Spec.Ports, p)
			}
		}
		w.put(w.made(config.KindService, "istio-system", "in", s, nil))
	}
	for _, ns := range enteringNamespaces[:2] {
		for _, name := range []string{"web", "db"} {
			if w.rand.IntN(6) > 0 {
				w.enteringService(ns, name)
			}
		}
	}
	w.put(w.made(config.KindSecret, "istio-system", "shown", &corev1.Secret{StringData: map[string]string{"tls.crt": Pair(0).Certificate, "tls.key": Pair(0).Key, "ca.crt": Pair(0).Certificate}}, nil))
	w.put(w.made(config.KindSecret, "default", "shown", &corev1.Secret{StringData: map[string]string{"tls.crt": Pair(0).Certificate, "tls.key": Pair(0).Key}}, nil))
	var gateways []string
	for i := range 1 + w.rand.IntN(4) {
		ns, name := pick(w, enteringNamespaces), fmt.Sprintf("g%d", i)
		w.put(w.aged(w.made(config.KindGateway, ns, name, w.enteringServers(), nil)))
		gateways = append(gateways, ns+"/"+name)
	}
	for i := range 1 + w.rand.IntN(6) {
		w.put(w.aged(w.made(config.KindVirtualService, pick(w, enteringNamespaces), fmt.Sprintf("in%d", i), w.enteringRoutes(gateways), nil)))
	}
	for i := range w.rand.IntN(4) {
		w.put(w.aged(w.made(config.KindDestinationRule, pick(w, enteringNamespaces[:2]), fmt.Sprintf("in%d", i), w.enteringRule(), nil)))
	}
	w.authorizers()
	for range w.rand.IntN(4) {
		w.enteringPolicy()
	}
	for range w.rand.IntN(3) {
		w.enteringTokens()
	}
	w.enteringByGatewayAPI()
}

// EnteringIssuer is whose tokens requests to Entering's gateways have.
const EnteringIssuer = "https://issuer.test"

// enteringKeys are a public key, as in RFC 7517 appendix A.1. Nobody signs with it.
const enteringKeys = `{"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`

// enteringTokens is a RequestAuthentication of the gateways' own namespaces, or of one that has no say.
func (w *World) enteringTokens() {
	p := &security.RequestAuthentication{Selector: &typev1beta1.WorkloadSelector{MatchLabels: EnteringLabels}}
	ns := pick(w, enteringNamespaces)
	switch {
	case w.rand.IntN(4) == 0:
		p.Selector = nil
	case ns == "default":
		p.Selector = nil
		p.TargetRefs = []*typev1beta1.PolicyTargetReference{{Group: "gateway.networking.k8s.io", Kind: "Gateway", Name: EnteringGateway}}
	}
	for range w.rand.IntN(3) {
		r := &security.JWTRule{Issuer: pick(w, []string{EnteringIssuer, EnteringIssuer, "https://other.test"}), Jwks: enteringKeys}
		if w.rand.IntN(3) == 0 {
			r.Audiences = pick(w, [][]string{{"app"}, {"else", "app"}, {"else"}})
		}
		p.JwtRules = append(p.JwtRules, r)
	}
	w.put(w.aged(w.made(config.KindRequestAuthentication, ns, fmt.Sprintf("t%d", w.rand.IntN(3)), p, nil)))
}

func (w *World) enteringService(ns, name string) {
	s := &corev1.Service{}
	if s.Spec.ClusterIP, s.Spec.Selector = w.clusterIP(), map[string]string{"app": name}; w.rand.IntN(5) == 0 {
		s.Spec.ClusterIP = corev1.ClusterIPNone
	}
	for _, p := range []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "https", Port: 443}, {Name: "tcp", Port: 5432}, {Name: "grpc", Port: 8080}} {
		if w.rand.IntN(4) > 0 || p.Port == 80 {
			s.Spec.Ports = append(s.Spec.Ports, p)
		}
	}
	w.put(w.made(config.KindService, ns, name, s, nil))
	p := &corev1.Pod{}
	p.Labels, p.Spec.ServiceAccountName, p.Status.PodIP, p.Status.Phase = map[string]string{"app": name, "version": pick(w, []string{"v1", "v2"})}, name, fmt.Sprintf("10.4.3.%d", 1+w.rand.IntN(40)), corev1.PodRunning
	if w.rand.IntN(2) == 0 {
		p.Labels["security.istio.io/tlsMode"] = "istio"
	}
	w.put(w.made(config.KindPod, ns, name+"-in", p, nil))
}

func (w *World) enteringServers() *networking.Gateway {
	g := &networking.Gateway{Selector: EnteringLabels}
	for i := range 1 + w.rand.IntN(4) {
		s := &networking.Server{Hosts: []string{pick(w, []string{"", "", "", "./", "team-a/", "*/"}) + pick(w, EnteringHosts)}}
		if w.rand.IntN(3) == 0 {
			s.Hosts = append(s.Hosts, pick(w, EnteringHosts))
		}
		port := func(number uint32, protocol string) *networking.Port {
			return &networking.Port{Number: number, Name: fmt.Sprintf("p%d", i), Protocol: protocol}
		}
		credential := pick(w, []string{"shown", "shown", "shown", "nothing"})
		switch w.rand.IntN(9) {
		case 0, 1:
			s.Port = port(80, "HTTP")
		case 2:
			s.Port, s.Tls = port(80, "HTTP"), &networking.ServerTLSSettings{HttpsRedirect: true}
		case 3, 4:
			s.Port, s.Tls = port(443, "HTTPS"), &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE, CredentialName: credential}
		case 5:
			s.Port, s.Tls = port(443, "HTTPS"), &networking.ServerTLSSettings{Mode: pick(w, []networking.ServerTLSSettings_TLSmode{networking.ServerTLSSettings_MUTUAL, networking.ServerTLSSettings_OPTIONAL_MUTUAL}), CredentialName: credential}
		case 6:
			s.Port, s.Tls = port(443, "TLS"), &networking.ServerTLSSettings{Mode: pick(w, []networking.ServerTLSSettings_TLSmode{networking.ServerTLSSettings_PASSTHROUGH, networking.ServerTLSSettings_PASSTHROUGH, networking.ServerTLSSettings_AUTO_PASSTHROUGH})}
		case 7:
			s.Port, s.Tls = port(443, "TLS"), &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE, CredentialName: credential}
		case 8:
			s.Port, s.Hosts = port(5432, "TCP"), []string{"*"}
		}
		g.Servers = append(g.Servers, s)
	}
	return g
}

func (w *World) enteringRoutes(gateways []string) *networking.VirtualService {
	v := &networking.VirtualService{Hosts: []string{pick(w, EnteringHosts)}, Gateways: []string{pick(w, gateways)}}
	if w.rand.IntN(3) == 0 {
		v.Hosts = append(v.Hosts, pick(w, EnteringHosts))
	}
	if w.rand.IntN(3) == 0 {
		v.Gateways = append(v.Gateways, pick(w, gateways))
	}
	for range 1 + w.rand.IntN(3) {
		h := w.meshHTTPRoute()
		for _, r := range h.Route {
			r.Destination = w.enteringDestination()
		}
		v.Http = append(v.Http, h)
	}
	if w.rand.IntN(2) == 0 {
		v.Tls = []*networking.TLSRoute{{Match: []*networking.TLSMatchAttributes{{SniHosts: []string{pick(w, v.Hosts)}}}, Route: []*networking.RouteDestination{{Destination: w.enteringDestination()}}}}
	}
	if w.rand.IntN(2) == 0 {
		v.Tcp = []*networking.TCPRoute{{Route: []*networking.RouteDestination{{Destination: w.enteringDestination()}}}}
		if w.rand.IntN(2) == 0 {
			v.Tcp[0].Match = []*networking.L4MatchAttributes{{Port: pick(w, []uint32{443, 5432})}}
		}
	}
	return v
}

func (w *World) enteringDestination() *networking.Destination {
	d := &networking.Destination{Host: pick(w, []string{"web", "db"}) + "." + pick(w, enteringNamespaces[:2]) + ".svc.cluster.local"}
	if w.rand.IntN(10) == 0 {
		d.Host = pick(w, []string{"a.test", "in.istio-system.svc.cluster.local", "nobody.test"})
	}
	if w.rand.IntN(2) == 0 {
		d.Port = &networking.PortSelector{Number: pick(w, []uint32{80, 80, 443, 8080, 5432})}
	}
	if w.rand.IntN(10) == 0 {
		d.Subset = "v1"
	}
	return d
}

func (w *World) enteringRule() *networking.DestinationRule {
	r := &networking.DestinationRule{Host: pick(w, []string{"web", "db"}), Subsets: []*networking.Subset{{Name: "v1", Labels: map[string]string{"version": "v1"}}}}
	if w.rand.IntN(2) == 0 {
		r.TrafficPolicy = &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: pick(w, []networking.ClientTLSSettings_TLSmode{
			networking.ClientTLSSettings_DISABLE, networking.ClientTLSSettings_SIMPLE, networking.ClientTLSSettings_ISTIO_MUTUAL,
		})}}
	}
	return r
}

// enteringPolicy is an AuthorizationPolicy of the gateways' own namespaces, or of one that has no say.
func (w *World) enteringPolicy() {
	o := w.Authorization(pick(w, enteringNamespaces), EnteringHosts)
	p := o.Spec.(*security.AuthorizationPolicy)
	p.TargetRefs, p.Selector = nil, &typev1beta1.WorkloadSelector{MatchLabels: EnteringLabels}
	if o.Key.Namespace == "default" && w.rand.IntN(2) == 0 {
		p.Selector = nil
		p.TargetRefs = []*typev1beta1.PolicyTargetReference{{Group: "gateway.networking.k8s.io", Kind: "Gateway", Name: EnteringGateway}}
	}
	if w.rand.IntN(3) == 0 {
		if w.rand.IntN(2) == 0 {
			p.Rules = []*security.Rule{{}}
		}
		p.Action, o.Annotations = security.AuthorizationPolicy_CUSTOM, nil
		p.ActionDetail = &security.AuthorizationPolicy_Provider{Provider: &security.AuthorizationPolicy_ExtensionProvider{Name: pick(w, []string{"grpc", "grpc", "grpc", "http", "none"})}}
	}
	w.put(o)
}

// enteringByGatewayAPI is a Gateway of the Gateway API, and routes for its listeners.
func (w *World) enteringByGatewayAPI() {
	w.put(w.made(config.KindGatewayClass, "", "sallyport", &gatewayv1.GatewayClassSpec{ControllerName: "egress.sallyport.io/gateway-controller"}, nil))
	g := &gatewayv1.GatewaySpec{GatewayClassName: "sallyport"}
	all := gatewayv1.NamespacesFromAll
	for i := range 1 + w.rand.IntN(5) {
		l := gatewayv1.Listener{Name: gatewayv1.SectionName(fmt.Sprintf("l%d", i)), AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}}}
		if w.rand.IntN(4) == 0 {
			l.AllowedRoutes = nil // its own namespace's
		}
		if host := pick(w, EnteringHosts); host != "*" {
			l.Hostname = new(gatewayv1.Hostname(host))
		}
		switch w.rand.IntN(5) {
		case 0, 1:
			l.Port, l.Protocol = 80, gatewayv1.HTTPProtocolType
		case 2:
			l.Port, l.Protocol = 443, gatewayv1.HTTPSProtocolType
			l.TLS = &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Name: gatewayv1.ObjectName(pick(w, []string{"shown", "shown", "nothing"}))}}}
		case 3:
			l.Port, l.Protocol = 443, gatewayv1.TLSProtocolType
			l.TLS = &gatewayv1.ListenerTLSConfig{Mode: new(gatewayv1.TLSModePassthrough)}
		case 4:
			l.Port, l.Protocol, l.Hostname = 5432, gatewayv1.TCPProtocolType, nil
		}
		g.Listeners = append(g.Listeners, l)
	}
	w.put(w.made(config.KindKubeGateway, "default", EnteringGateway, g, nil))
	for i := range w.rand.IntN(5) {
		w.put(w.aged(w.enteringRoute(pick(w, enteringNamespaces[:2]), fmt.Sprintf("in%d", i))))
	}
}

func (w *World) enteringRoute(ns, name string) *config.Object {
	parent := gatewayv1.ParentReference{Name: EnteringGateway, Namespace: new(gatewayv1.Namespace("default"))}
	if w.rand.IntN(3) == 0 {
		parent.SectionName = new(gatewayv1.SectionName(fmt.Sprintf("l%d", w.rand.IntN(3))))
	}
	parents := gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{parent}}
	backend := func() gatewayv1.BackendRef {
		return gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(pick(w, []string{"web", "web", "db", "missing"})), Port: new(pick(w, []int32{80, 443, 5432}))}}
	}
	var hosts []gatewayv1.Hostname
	if host := pick(w, EnteringHosts); host != "*" {
		hosts = append(hosts, gatewayv1.Hostname(host))
	}
	switch w.rand.IntN(5) {
	case 0:
		if len(hosts) == 0 {
			hosts = []gatewayv1.Hostname{"a.in.test"}
		}
		return w.made(config.KindTLSRoute, ns, name, &gatewayv1.TLSRouteSpec{CommonRouteSpec: parents, Hostnames: hosts, Rules: []gatewayv1.TLSRouteRule{{BackendRefs: []gatewayv1.BackendRef{backend()}}}}, nil)
	case 1:
		return w.made(config.KindTCPRoute, ns, name, &gatewayv1.TCPRouteSpec{CommonRouteSpec: parents, Rules: []gatewayv1.TCPRouteRule{{BackendRefs: []gatewayv1.BackendRef{backend()}}}}, nil)
	}
	spec := &gatewayv1.HTTPRouteSpec{CommonRouteSpec: parents, Hostnames: hosts}
	for range 1 + w.rand.IntN(3) {
		rule := gatewayv1.HTTPRouteRule{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: backend()}}}
		if w.rand.IntN(2) == 0 {
			rule.Matches = []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchPathPrefix), Value: new(pick(w, []string{"/", "/api", "/b"}))}}}
		}
		switch w.rand.IntN(6) {
		case 0:
			rule.BackendRefs, rule.Filters = nil, []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterRequestRedirect, RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{Hostname: new(gatewayv1.PreciseHostname("else.test"))}}}
		case 1:
			rule.BackendRefs = nil
		}
		if len(rule.BackendRefs) > 0 && len(spec.Rules) == 1 {
			rule.SessionPersistence = &gatewayv1.SessionPersistence{SessionName: new("sid")}
			left := backend() // to which sessions lead alone
			left.Weight = new(int32(0))
			rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: left})
		}
		spec.Rules = append(spec.Rules, rule)
	}
	return w.made(config.KindHTTPRoute, ns, name, spec, nil)
}
