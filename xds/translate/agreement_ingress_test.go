package translate_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/translate/interpret"
	"github.com/sallyport/sallyport/xds/wire"
)

// entered is what becomes of something at an ingress gateway.
type entered struct {
	Allowed  bool
	Cluster  string
	Status   uint32 // what the gateway answers itself; 0: nothing
	Location string
	Closed   bool   // the connection ends without an answer
	Rule     string // of the AuthorizationPolicy that allows, or which one denies
	Asks     string // the authorizer that is asked about what goes on
}

func enteredBy(v policy.Verdict) entered {
	e := entered{Allowed: v.Allowed, Cluster: v.Cluster, Status: v.Status, Location: v.Location, Closed: !v.Allowed && v.Status == 0, Rule: ruleIn(v.Authorization.Ruling)}
	if r := v.Authorization.Ruling; r != nil && !r.Allows {
		e.Rule = "denied by " + r.Policy.Key.String()
	}
	if of := v.Authorization.Asks; of != nil && v.Allowed {
		e.Asks = of.Policy.Provider
	}
	return e
}

// enteredThrough is what an Envoy made of it. Of connections the record has what denies in words: the rule is then taken from what policy says.
func enteredThrough(o interpret.Outcome, said entered) (e entered) {
	switch {
	case o.Response != nil:
		e.Status = o.Response.Status
		if e.Status == 301 && o.Response.Details == "tls_redirect" {
			e.Location = o.Response.Headers["location"]
		}
	case o.Upstream == nil || o.Upstream.Cluster == "BlackHoleCluster":
		e.Closed = true
	default:
		e.Allowed, e.Cluster, e.Asks = true, o.Upstream.Cluster, strings.Join(o.Asked, ",")
	}
	if e.Rule = said.Rule; len(o.Entries) == 1 && o.Entries[0].Log == string(wire.IngressHTTP) {
		e.Rule, _ = authorizedBy(o.Entries[0])
		if _, _, denied := ruledBy(o.Entries[0]); denied.Name != "" {
			e.Rule = "denied by " + denied.String()
		}
	}
	return e
}

// TestEnterAgreesWithProxies holds, in random worlds, what policy says of what comes to ingress gateways against what their proxies do with it, as package
// interpret reads Envoy's resources.
func TestEnterAgreesWithProxies(t *testing.T) {
	n := *worlds * 4
	if registrytest.Raced || testing.Short() {
		n = 40
	}
	d := newDecoder()
	seen := map[string]int{}
	for seed := *firstWorld; seed < *firstWorld+n; seed++ {
		e := entrances(d, seed)
		r := rand.New(rand.NewPCG(seed, 11))
		for range triesEach / 2 {
			x, c := someEntering(r, e.snapshot)
			node := translate.Node{ID: "router~10.244.0.2~gw.n~n.svc.cluster.local", Namespace: x.Gateway.Namespace, Labels: x.Gateway.Has, Account: "in", Topology: x.Gateway.Topology}
			class := translate.Classify(e.snapshot, node)
			if class.Kind != translate.Ingress {
				break
			}
			if class.Ingress != x.Gateway.Ingress {
				t.Fatalf("world %d: the gateway is %+v, and its proxy is told of %+v", seed, x.Gateway.Ingress, class.Ingress)
			}
			x.Pod = netip.MustParseAddr("10.244.0.2")
			v := policy.DecideIngress(e.snapshot, x)
			_, proxy := e.node(node, "")
			c.To = netip.AddrPortFrom(x.Pod, uint16(e.snapshot.Listens(x.Gateway.Ingress, x.Port)))
			c.Through = uint32(c.To.Port())
			out, err := proxy.Connect(c)
			want := enteredBy(v)
			got := enteredThrough(out, want)
			if got != want || err != nil {
				t.Fatalf("world %d: %s://%s:%d%s at %s, labels %v\n  policy: %+v (%s: %s)\n  proxy:  %+v (%v)\n    %s\n%s", seed, x.Scheme, x.Host, x.Port, x.Path, x.By, x.Gateway.Has, want, v.DecidedBy, v.Reason, got, err, strings.Join(out.Steps, "\n    "), e.text(x))
			}
			if want.Asks != "" {
				seen["asks "+want.Asks]++
			}
			switch {
			case want.Allowed && x.Claims != nil:
				seen["allowed with a token"]++
			case want.Allowed:
				seen["allowed by "+string(x.Scheme)]++
			default:
				seen[fmt.Sprint(want.Status)]++
			}
		}
	}
	for _, what := range []string{"allowed with a token", "asks grpc", "asks http", "allowed by http", "allowed by https", "allowed by tls", "allowed by tcp", "0", "301", "401", "403", "404", "421", "500", "503"} {
		if seen[what] == 0 {
			t.Errorf("nothing is %q: %v", what, seen)
		}
	}
}

// text are the world's objects that are about ingress gateways.
func (e *envoys) text(x policy.IngressAttempt) string {
	var b strings.Builder
	for _, k := range (world{objects: e.objects}).keys() {
		switch k.Kind {
		case config.KindGateway, config.KindVirtualService, config.KindKubeGateway, config.KindHTTPRoute, config.KindTLSRoute, config.KindTCPRoute, config.KindAuthorizationPolicy, config.KindRequestAuthentication, config.KindDestinationRule:
			b.WriteString(written(e.objects[k]))
		case config.KindService:
			if k.Name == "web" || k.Name == "db" || k.Name == x.Gateway.Service.Name {
				b.WriteString(written(e.objects[k]))
			}
		}
	}
	return b.String()
}

// entrances are the proxies of a mesh with ingress gateways.
func entrances(d *decoder, seed uint64) *envoys {
	made, settings := registrytest.Mesh(seed)
	made.Entering()
	made.Accepted(func(o config.Object) bool { return !admission.Refused(admission.Validate(o)) })
	settings.MutualTLS, settings.AutoMTLS = seed%8 != 5, true
	settings.Authorizers = []mesh.Authorizer{
		{Name: "grpc", GRPC: true, Host: registrytest.AuthorizerHost, Port: 9191, Timeout: time.Second, StatusOnError: 403},
		{Name: "http", Host: registrytest.AuthorizerHost, Port: 9192, Timeout: time.Second, StatusOnError: 403, FailOpen: seed%4 == 0},
	}
	return world{objects: made.Objects, mesh: settings}.envoys(d)
}

// someEntering is something that somebody outside sends, in both ways to say it.
func someEntering(r *rand.Rand, s *registry.Snapshot) (x policy.IngressAttempt, c interpret.Connection) {
	x.Gateway.Has, x.By = registrytest.EnteringLabels, config.Key{Kind: config.KindService, Namespace: "istio-system", Name: "in"}
	ns := "istio-system"
	if r.IntN(3) == 0 {
		ns, x.Gateway.Has = "default", map[string]string{gatewayapi.GatewayLabel: registrytest.EnteringGateway}
	}
	x.Gateway.Ingress, _ = s.IngressOf(ns, x.Gateway.Has, 0)
	x.Gateway.Namespace = ns
	if r.IntN(2) == 0 {
		x.Gateway.Topology = mesh.GatewayTopology{Said: true, TrustedProxies: uint32(r.IntN(3))}
	}
	x.Scheme = one(r, []policy.Scheme{policy.HTTP, policy.HTTP, policy.HTTPS, policy.HTTPS, policy.TLS, policy.TCP})
	x.Port = map[policy.Scheme]uint32{policy.HTTP: 80, policy.HTTPS: 443, policy.TLS: 443, policy.TCP: 5432}[x.Scheme]
	if r.IntN(8) == 0 {
		x.Port = one(r, []uint32{80, 443, 5432, 8080})
	}
	names := []string{"a.in.test", "b.in.test", "c.b.in.test", "d.c.b.in.test", "else.test", "in.test", "203.0.113.1"}
	x.Host, x.From = one(r, names), one(r, []netip.Addr{podAddress.Addr(), netip.MustParseAddr("192.0.2.7")})
	x.Method, x.Path = one(r, []string{"GET", "POST"}), one(r, []string{"/", "/api", "/api/x", "/b?q=1", "/x/../api", "/%61pi"})
	authority := x.Host
	if x.Scheme == policy.HTTPS && r.IntN(4) == 0 {
		authority = one(r, names)
	} else if x.Port != map[policy.Scheme]uint32{policy.HTTP: 80, policy.HTTPS: 443}[x.Scheme] {
		authority = net.JoinHostPort(x.Host, strconv.FormatUint(uint64(x.Port), 10))
	}
	x.Headers = map[string][]string{"host": {authority}}
	request := &interpret.Request{Method: x.Method, Authority: authority, Path: x.Path, Headers: map[string]string{}}
	if behind := one(r, []string{"", "", "10.244.0.9", "10.4.1.7, 192.0.2.7", "192.0.2.7,10.244.0.9 , nobody", "fd00::1"}); behind != "" {
		x.Headers["x-forwarded-for"], request.Headers["x-forwarded-for"] = []string{behind}, behind
	}
	if r.IntN(3) == 0 { // of a session, which the first of several backends has
		x.Headers["cookie"], request.Headers["cookie"] = []string{"theme=dark; sid=CgA="}, "theme=dark; sid=CgA="
	}
	if r.IntN(3) == 0 { // a token, which is good as far as its signature goes
		request.Claims = map[string]any{"iss": registrytest.EnteringIssuer, "sub": one(r, []string{"anna", "bert"}), "group": one(r, []string{"admin", "guest"})}
		if r.IntN(6) == 0 {
			request.Claims["iss"] = "https://stranger.test"
		}
		if aud := one(r, []string{"app", "else", ""}); aud != "" {
			request.Claims["aud"] = aud
		}
		x.Claims = func(path []string) []string {
			if text, is := request.Claims[path[0]].(string); is && len(path) == 1 {
				return []string{text}
			}
			return nil
		}
	}
	c.From = netip.AddrPortFrom(x.From, 40000)
	hello := &interpret.Hello{SNI: x.Host, Peer: []string{"spiffe://outside/client"}, Inside: &interpret.Bytes{}}
	if _, err := netip.ParseAddr(x.Host); err == nil {
		hello.SNI = ""
	}
	switch x.Scheme {
	case policy.HTTP:
		c.Bytes.Request = request
	case policy.HTTPS:
		hello.ALPN, hello.Inside.Request = []string{"h2", "http/1.1"}, request
		c.Bytes.Hello = hello
	case policy.TLS:
		c.Bytes.Hello = hello
	}
	return x, c
}

// TestEnterAgreesWithGatewayCalls holds what policy says of the calls of TestGatewayCalls against what the gateway does.
func TestEnterAgreesWithGatewayCalls(t *testing.T) {
	files, err := filepath.Glob("testdata/calls/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	services, err := os.ReadFile("testdata/calls/services.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			w, calls := readWorld(t, file, "calls", txtar.File{Name: "objects.yaml", Data: services})
			node := gatewayNode(t, file)
			e := w.envoys(newDecoder())
			_, gateway := e.node(node, "")
			pods := registry.IngressCandidate{Has: node.Labels}
			pods.Ingress, _ = e.snapshot.IngressOf(node.Namespace, node.Labels, 0)
			for line := range strings.Lines(calls) {
				if strings.Contains(line, "alpn=") || strings.Contains(line, "peer=") {
					continue // whoever speaks as the mesh does is not outside
				}
				c, _ := readCall(t, line)
				scheme, _, _ := strings.Cut(strings.Fields(line)[1], "://")
				if e.snapshot.Listens(pods.Ingress, uint32(c.To.Port())) != uint32(c.To.Port()) {
					continue // a Service leads that port elsewhere, so nobody outside gets to this one
				}
				x := policy.IngressAttempt{Gateway: pods, From: c.From.Addr()}
				x.Scheme, x.Port, x.Host = policy.Scheme(scheme), uint32(c.To.Port()), "10.244.0.2"
				request := c.Bytes.Request
				if h := c.Bytes.Hello; h != nil {
					request, h.Peer = h.Inside.Request, []string{"spiffe://outside/client"} // one that is taken, where one is asked for
					if h.SNI != "" {
						x.Host = h.SNI
					}
				}
				if request != nil {
					x.Path, x.Headers = request.Path, map[string][]string{"host": {request.Authority}}
				}
				out, err := gateway.Connect(c)
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				v := policy.DecideIngress(e.snapshot, x)
				want := enteredBy(v)
				if got := enteredThrough(out, want); want != got {
					t.Errorf("%s  policy: %+v (%s)\n  proxy:  %+v\n    %s", line, want, v.Reason, got, strings.Join(out.Steps, "\n    "))
				}
			}
		})
	}
}
