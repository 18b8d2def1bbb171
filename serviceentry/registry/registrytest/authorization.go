package registrytest

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/sallyport/sallyport/config"
)

// Authorized makes random AuthorizationPolicies: of the gateways' namespaces, and of others, which count for no gateway of theirs.
func (w *World) Authorized(hosts []string) {
	for range 1 + w.rand.IntN(6) {
		w.put(w.Authorization(pick(w, []string{"istio-system", "istio-system", "istio-system", "team-a", "store", "default"}), hosts))
	}
}

// AuthorizerHost is where Asking's authorizers are, by gRPC at the port 9191 and by HTTP at 9192.
const AuthorizerHost = "authz.test"

// AskedHost is a host that leaves by the mesh's gateway in Asking's worlds.
const AskedHost = "asked.example"

// Asking makes random AuthorizationPolicies that have the authorizers "grpc" and "http" asked, or one that is none.
func (w *World) Asking(hosts []string) {
	if key := (config.Key{Kind: config.KindService, Namespace: "istio-system", Name: "istio-egressgateway"}); w.Objects[key] == nil {
		s := w.gateway()
		s.Spec.ClusterIP, s.Spec.Selector = w.clusterIP(), map[string]string{"istio": key.Name}
		w.put(w.made(key.Kind, key.Namespace, key.Name, s, nil))
	}
	w.put(w.made(config.KindServiceEntry, "istio-system", "asked", &networking.ServiceEntry{
		Hosts: []string{AskedHost}, Resolution: networking.ServiceEntry_DNS, Ports: []*networking.ServicePort{
			{Number: 80, Name: "http", Protocol: "HTTP"}, {Number: 443, Name: "tls", Protocol: "TLS"}, {Number: 5432, Name: "tcp", Protocol: "TCP"},
		},
	}, nil))
	hosts = append(hosts, AskedHost)
	w.authorizers()
	provider := pick(w, []string{"grpc", "grpc", "http", "none"})
	for i := range 1 + w.rand.IntN(3) {
		o := w.Authorization(pick(w, []string{"istio-system", "istio-system", "team-a", "default"}), hosts)
		if i == 0 {
			o = w.Authorization("istio-system", hosts)
			o.Spec.(*security.AuthorizationPolicy).Selector, o.Spec.(*security.AuthorizationPolicy).TargetRefs = nil, nil
		}
		p := o.Spec.(*security.AuthorizationPolicy)
		p.Action, o.Annotations = security.AuthorizationPolicy_CUSTOM, nil
		if w.rand.IntN(8) == 0 {
			provider = "http"
		}
		p.ActionDetail = &security.AuthorizationPolicy_Provider{Provider: &security.AuthorizationPolicy_ExtensionProvider{Name: provider}}
		w.put(o)
	}
}

// authorizers registers them.
func (w *World) authorizers() {
	w.put(w.made(config.KindServiceEntry, "istio-system", "authz", &networking.ServiceEntry{
		Hosts: []string{AuthorizerHost}, Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC,
		Endpoints: []*networking.WorkloadEntry{{Address: "10.9.9.9"}},
		Ports:     []*networking.ServicePort{{Number: 9191, Name: "grpc", Protocol: "GRPC"}, {Number: 9192, Name: "http", Protocol: "HTTP"}},
	}, nil))
}

// Authorization is a random AuthorizationPolicy about the hosts.
func (w *World) Authorization(ns string, hosts []string) *config.Object {
	p := &security.AuthorizationPolicy{Action: pick(w, []security.AuthorizationPolicy_Action{
		security.AuthorizationPolicy_ALLOW, security.AuthorizationPolicy_ALLOW, security.AuthorizationPolicy_DENY, security.AuthorizationPolicy_DENY, security.AuthorizationPolicy_AUDIT,
	})}
	switch w.rand.IntN(6) {
	case 0: // for all
	case 1:
		p.TargetRefs = []*typev1beta1.PolicyTargetReference{{Kind: "Service", Name: pick(w, []string{"istio-egressgateway", "own-gateway", "web"})}}
	default:
		p.Selector = &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"istio": pick(w, []string{"istio-egressgateway", "egressgateway", "own-gateway", "other"})}}
	}
	for range w.rand.IntN(4) {
		p.Rules = append(p.Rules, w.authorizationRule(hosts))
	}
	if w.rand.IntN(4) == 0 && p.Action == security.AuthorizationPolicy_ALLOW {
		p.Rules = append(p.Rules, &security.Rule{})
	}
	var dry map[string]string
	if w.rand.IntN(4) == 0 {
		dry = map[string]string{"istio.io/dry-run": "true"}
	}
	return w.made(config.KindAuthorizationPolicy, ns, fmt.Sprintf("a%d", w.rand.IntN(6)), p, dry)
}

func (w *World) authorizationRule(hosts []string) *security.Rule {
	r := &security.Rule{}
	for range w.rand.IntN(3) {
		r.From = append(r.From, &security.Rule_From{Source: w.source()})
	}
	for range w.rand.IntN(3) {
		r.To = append(r.To, &security.Rule_To{Operation: w.operation(hosts)})
	}
	if w.rand.IntN(3) == 0 {
		r.When = append(r.When, w.condition(hosts))
	}
	return r
}

func (w *World) source() *security.Source {
	one := func(in int) bool { return w.rand.IntN(in) == 0 }
	s := &security.Source{}
	if one(3) {
		s.Principals = pick(w, [][]string{{"cluster.local/ns/default/sa/app"}, {"*/sa/other"}, {"cluster.local/ns/team-a/*"}, {"*"}, {"old.local/ns/default/sa/app"}})
	}
	if one(4) {
		s.NotPrincipals = pick(w, [][]string{{"cluster.local/ns/default/sa/app"}, {"*/sa/other"}})
	}
	if one(3) {
		s.Namespaces = pick(w, [][]string{{"default"}, {"team-*"}, {"*-a", "store"}, {"*"}})
	}
	if one(5) {
		s.NotNamespaces = pick(w, [][]string{{"default"}, {"team-*"}})
	}
	if one(5) {
		s.ServiceAccounts = pick(w, [][]string{{"default/app"}, {"other"}, {"team-a/default", "store/app"}})
	}
	if one(6) {
		s.NotServiceAccounts = []string{"default/app"}
	}
	if one(6) {
		s.IpBlocks = pick(w, [][]string{{"10.4.1.0/25"}, {"10.244.0.9"}, {"10.0.0.0/8"}, {"fd00::/8"}})
	}
	if one(8) {
		s.NotRemoteIpBlocks = pick(w, [][]string{{"10.4.1.0/25"}, {"10.244.0.9"}})
	}
	if one(8) {
		s.RequestPrincipals = pick(w, [][]string{{"*"}, {"https://issuer.test/anna"}, {"https://issuer.test/*", "*anna"}})
	}
	if one(10) {
		s.NotRequestPrincipals = pick(w, [][]string{{"*"}, {"https://issuer.test/anna"}})
	}
	if one(8) {
		s.TrustDomains = pick(w, [][]string{{"cluster.local"}, {"*.local"}, {"old*"}})
	}
	return s
}

func (w *World) operation(hosts []string) *security.Operation {
	one := func(in int) bool { return w.rand.IntN(in) == 0 }
	o := &security.Operation{}
	if one(3) {
		o.Hosts = w.authorizationHosts(hosts)
	}
	if one(6) {
		o.NotHosts = w.authorizationHosts(hosts)
	}
	if one(4) {
		o.Ports = pick(w, [][]string{{"80"}, {"443"}, {"80", "8080"}, {"443", "5432"}, {"9000"}})
	}
	if one(6) {
		o.NotPorts = pick(w, [][]string{{"80"}, {"443"}})
	}
	if one(6) {
		o.Methods = pick(w, [][]string{{"GET"}, {"P*"}, {"*"}})
	}
	if one(8) {
		o.NotMethods = []string{"POST"}
	}
	if one(4) {
		o.Paths = pick(w, [][]string{{"/api*"}, {"/", "/b*"}, {"*/x"}, {"/api/{*}"}, {"/api/{*}/{**}"}, {"/admin"}})
	}
	if one(6) {
		o.NotPaths = pick(w, [][]string{{"/api*"}, {"/admin*"}})
	}
	return o
}

func (w *World) authorizationHosts(hosts []string) []string {
	h := w.policyHost(hosts)
	return pick(w, [][]string{{h}, {h + ":443"}, {h + ":*"}, {"*." + h}, {"q*"}})
}

func (w *World) condition(hosts []string) *security.Condition {
	host := w.policyHost(hosts)
	c := pick(w, []*security.Condition{
		{Key: "connection.sni", Values: []string{host}},
		{Key: "connection.sni", NotValues: []string{host}},
		{Key: "destination.port", Values: []string{"443"}},
		{Key: "destination.ip", Values: []string{"10.4.0.0/23", "10.244.0.7"}},
		{Key: "destination.ip", NotValues: []string{"10.4.0.0/24"}},
		{Key: "request.headers[X-Team]", Values: []string{"a*"}},
		{Key: "request.headers[x-team]", NotValues: []string{"*"}},
		{Key: "source.namespace", Values: []string{"default"}},
		{Key: "source.principal", NotValues: []string{"*/sa/app"}},
		{Key: "source.ip", NotValues: []string{"10.4.1.0/25"}},
		{Key: "remote.ip", Values: []string{"10.244.0.0/16"}},
		{Key: "source.serviceAccount", Values: []string{"default/app"}},
		{Key: "request.auth.claims[group]", Values: []string{"admin"}},
		{Key: "request.auth.claims[realm][roles]", NotValues: []string{"*"}},
		{Key: "request.auth.audiences", Values: []string{"a*"}},
	})
	return c
}
