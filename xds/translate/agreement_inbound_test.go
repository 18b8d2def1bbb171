package translate_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/translate/interpret"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestArriveAgreesWithProxies holds, in random worlds, what policy says of what comes to pods against what their own proxies do with it, as package
// interpret reads Envoy's resources.
func TestArriveAgreesWithProxies(t *testing.T) {
	n := max(*worlds/2, 2)
	if registrytest.Raced || testing.Short() {
		n = 4
	}
	d := newDecoder()
	allowed, denied := 0, map[string]int{}
	for seed := *firstWorld; seed < *firstWorld+n; seed++ {
		e := arrivals(d, seed)
		r := rand.New(rand.NewPCG(seed, 7))
		for range triesEach {
			a := someArrival(r)
			v := policy.DecideInbound(e.snapshot, a)
			if v.Allowed {
				allowed++
			} else {
				denied[string(v.DecidedBy.Kind)]++
			}
			want := decided(v)
			want.Path, want.Cluster, want.DecidedBy = "", v.Cluster, observed{}.DecidedBy
			got, steps, read, err := e.arrives(a)
			if !read { // of connections the record has what denies in words
				got, want = got.withoutRules(), want.withoutRules()
			}
			if got != want || err != nil {
				t.Fatalf("world %d: %+v\n  policy:  %s (%s)\n  proxies: %s (%v)\n    %s", seed, a, want, v.Reason, got, err, strings.Join(steps, "\n    "))
			}
		}
	}
	if allowed == 0 || denied["PeerAuthentication"] == 0 || denied["AuthorizationPolicy"] == 0 {
		t.Errorf("%d are let in, and refused: %v", allowed, denied)
	}
}

// arrivals are the proxies of a world of pods that take mutual TLS.
func arrivals(d *decoder, seed uint64) *envoys {
	made, settings, _ := randomObjects(seed)
	for range 4 {
		made.Mutual()
		made.Arriving()
	}
	made.Authorized(hostsIn(made.Objects))
	settings.MutualTLS, settings.AutoMTLS, settings.Audit.Mesh, settings.TrustDomainAliases = seed%16 != 5, true, mesh.MeshAll, []string{"old.local"}
	if seed%2 == 0 {
		made.Asking(hostsIn(made.Objects))
		settings.Authorizers = []mesh.Authorizer{
			{Name: "grpc", GRPC: true, Host: registrytest.AuthorizerHost, Port: 9191, Timeout: time.Second, StatusOnError: 403},
			{Name: "http", Host: registrytest.AuthorizerHost, Port: 9192, Timeout: time.Second, StatusOnError: 403, FailOpen: seed%4 == 0},
		}
	}
	return world{objects: made.Objects, mesh: settings}.envoys(d)
}

// someArrival is one that comes to a pod from somebody.
func someArrival(r *rand.Rand) policy.InboundAttempt {
	a := policy.InboundAttempt{Pod: policy.Workload{Namespace: one(r, []string{"default", "team-a", "store", "istio-system"})}, Port: one(r, []uint32{80, 443, 8080, 9000, 5432, 15020})}
	a.Pod.Address = one(r, []netip.Addr{netip.MustParseAddr("10.4.0.5"), podAddress.Addr()})
	a.Pod.Labels = one(r, []map[string]string{nil, {"istio": "app"}, {"istio": "egressgateway"}, {"app": "web"}, {"istio": "app", "security.istio.io/tlsMode": "istio"}})
	a.From = one(r, []netip.Addr{podAddress.Addr(), netip.MustParseAddr("10.4.0.9"), netip.MustParseAddr("192.0.2.7")})
	a.Kind = one(r, []resolve.Kind{resolve.Requests, resolve.Requests, resolve.Connections, resolve.TLSConnections})
	host := one(r, []string{"web.default", "a.example", "asked.example"})
	if a.Mutual = r.IntN(3) > 0; a.Mutual {
		a.Client = fmt.Sprintf("spiffe://%s/ns/%s/sa/%s", one(r, []string{"cluster.local", "old.local"}), one(r, []string{"default", "team-a", "istio-system"}), one(r, []string{"app", "default"}))
		a.SNI = resolve.SNI(80, "", host)
	} else if a.Kind == resolve.TLSConnections {
		a.SNI = one(r, []string{"", host})
	}
	if a.Kind == resolve.Requests {
		a.Request.Method, a.Request.Path, a.Request.Authority = one(r, []string{"GET", "POST"}), one(r, []string{"/", "/api/x", "/b?q=1", "/admin", "/a//b"}), one(r, []string{host, host + ":8080"})
	}
	return a
}

// arrives follows it through the pod's proxy.
func (e *envoys) arrives(a policy.InboundAttempt) (o observed, steps []string, read bool, err error) {
	address := a.Pod.Address.String()
	node := translate.Node{ID: "sidecar~" + address + "~p.n~n.svc.cluster.local", Namespace: a.Pod.Namespace, Account: "app", Labels: a.Pod.Labels, IPv6: true}
	view, proxy := e.node(node, "")
	bytes := interpret.Bytes{}
	switch a.Kind {
	case resolve.Requests:
		bytes.Request = &interpret.Request{Method: a.Request.Method, Authority: a.Request.Authority, Path: a.Request.Path, Headers: map[string]string{}}
	case resolve.TLSConnections:
		bytes.Hello = &interpret.Hello{SNI: a.SNI}
	default:
	}
	if a.Mutual {
		inside := bytes
		bytes = interpret.Bytes{Hello: &interpret.Hello{SNI: a.SNI, ALPN: []string{"istio"}, Peer: []string{a.Client}, Inside: &inside}}
	}
	out, err := proxy.Connect(interpret.Connection{
		To: netip.AddrPortFrom(a.Pod.Address, uint16(a.Port)), Through: 15006, Redirected: true, From: netip.AddrPortFrom(a.From, 41000), Bytes: bytes,
	})
	if err != nil {
		return o, out.Steps, false, err
	}
	if out.Upstream != nil && out.Upstream.Cluster != "BlackHoleCluster" {
		o.Allowed, o.Cluster = true, out.Upstream.Cluster
		if _, ok := view.Get(resource.Cluster, o.Cluster); !ok {
			return o, out.Steps, false, fmt.Errorf("there is no cluster %s", o.Cluster)
		}
	}
	o.Asks = strings.Join(out.Asked, ",")
	o.governed(out.Entries)
	return o, out.Steps, len(out.Entries) == 1 && out.Entries[0].Log == string(wire.InboundHTTP), nil
}

// withoutRules leaves out which rules say so.
func (o observed) withoutRules() observed {
	o.Rule, o.WouldDeny, o.Authorized, o.WouldRefuse = "", "", "", ""
	o.Asks, _, _ = strings.Cut(o.Asks, " ")
	return o
}
