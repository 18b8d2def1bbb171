package translate_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/translate/interpret"
	"github.com/sallyport/sallyport/xds/wire"
)

// fronted is what becomes of something that a pod without a sidecar sends.
type fronted struct {
	Allowed bool
	// Waypoint and Gateway are those that it goes by; zero where it goes nowhere.
	Waypoint, Gateway registry.Ref
	Denies            config.Key // the policy that denies
	Rule              string     // of the AuthorizationPolicy at the waypoint that allows
	Asks              string     // the authorizers that are asked there about what goes on
}

func frontedBy(v policy.Verdict) (f fronted) {
	if f.Allowed = v.Allowed; !f.Allowed {
		ruled := v.Ruling != nil && v.Ruling.Policy.Key == v.DecidedBy.Key // rather than what lets a host out that is closed
		if v.DecidedBy.Kind == config.KindAuthorizationPolicy || v.DecidedBy.Kind == config.KindEgressPolicy && ruled {
			f.Denies = v.DecidedBy.Key
		}
		return f
	}
	f.Waypoint, f.Gateway = v.Waypoint, v.Gateway
	if f.Waypoint.IsZero() {
		return f
	}
	f.Rule = ruleIn(v.Authorization.Ruling)
	if of := v.Authorization.Asks; of != nil {
		f.Asks = of.Policy.Provider
	}
	return f
}

// TestWaypointsAgreeWithProxies holds, in random worlds, what policy says of what pods without sidecars send against what their node's proxy, the waypoint and the
// egress gateway do with it, as package interpret reads Envoy's resources.
func TestWaypointsAgreeWithProxies(t *testing.T) {
	n := *worlds
	if registrytest.Raced || testing.Short() {
		n = max(n/10, 2)
	}
	d := newDecoder()
	seen := map[string]int{}
	for seed := *firstWorld; seed < *firstWorld+n; seed++ {
		holdWaypoints(t, d, seed, seen)
	}
	for _, what := range []string{"by a waypoint", "outside by a waypoint", "a pod by a waypoint", "denied there", "denied by an EgressPolicy", "asks grpc", "to nowhere"} {
		if seen[what] == 0 && n >= 16 { // in fewer worlds not all of it has to be
			t.Errorf("nothing is %q: %v", what, seen)
		}
	}
	t.Logf("%v", seen)
}

func FuzzWaypointsAgreeWithProxies(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { holdWaypoints(t, newDecoder(), seed, map[string]int{}) })
}

func holdWaypoints(t *testing.T, d *decoder, seed uint64, seen map[string]int) {
	t.Helper()
	w := frontedWorld(seed)
	e := w.envoys(d)
	r := rand.New(rand.NewPCG(seed, 17))
	for range triesEach {
		x := frontedTry(r, e)
		found, differ, compared := disagreeFronted(e, w, x)
		if differ {
			found.shrink(func(e *envoys, w world, x tried) (disagreement, bool) {
				found, differ, _ := disagreeFronted(e, w, x)
				return found, differ
			}).report(t, seed)
			return
		}
		if compared {
			v := policy.Decide(e.snapshot, x.from, x.Destination)
			noteFronted(seen, v, frontedBy(v))
		}
	}
}

func disagreeFronted(e *envoys, w world, x tried) (found disagreement, differ, compared bool) {
	v := policy.Decide(e.snapshot, x.from, x.Destination)
	want, got, steps, err := e.throughFronts(x, v)
	if errors.Is(err, errNoName) || errors.Is(err, errSilent) {
		return found, false, false
	}
	if differ = err != nil || got != want; differ {
		err = errors.Join(err, fmt.Errorf("\n  policy:  %+v (%s: %s)\n  proxies: %+v", want, v.DecidedBy, v.Reason, got))
	}
	return disagreement{world: w, x: x, steps: steps, err: err}, differ, true
}

// noteFronted counts what is tried.
func noteFronted(seen map[string]int, v policy.Verdict, f fronted) {
	switch {
	case f.Asks != "":
		seen["asks "+f.Asks]++
	case !f.Allowed && f.Denies.Kind == config.KindAuthorizationPolicy && !v.Waypoint.IsZero():
		seen["denied there"]++
	case !f.Allowed && f.Denies.Kind == config.KindEgressPolicy:
		seen["denied by an EgressPolicy"]++
	case !f.Allowed && !v.Waypoint.IsZero():
		seen["to nowhere"]++
	case f.Allowed && strings.HasPrefix(v.Reason, "a pod's own address"):
		seen["a pod by a waypoint"]++
	case f.Allowed && !f.Waypoint.IsZero() && !f.Gateway.IsZero():
		seen["outside by a waypoint"]++
	case f.Allowed && !f.Waypoint.IsZero():
		seen["by a waypoint"]++
	}
}

// frontedWorld is a mesh with waypoints, with people, and with policies of all kinds.
func frontedWorld(seed uint64) world {
	made, settings := registrytest.Mesh(seed)
	hosts := hostsIn(made.Objects)
	if seed%3 == 0 {
		made.Governed(append([]string{"store"}, registrytest.Namespaces...), hosts)
		for _, o := range made.Objects {
			if p, is := o.Spec.(*v1alpha1.EgressPolicy); is {
				p.Selector = nil // what proxies know of a client's labels is TestPoliciesAgreeWithProxies'
			}
		}
	}
	made.Fronting(hosts)
	made.Accepted(func(o config.Object) bool { return !admission.Refused(admission.Validate(o)) })
	settings.MutualTLS, settings.AutoMTLS, settings.Audit.Mesh = true, true, mesh.MeshAll
	settings.Authorizers = []mesh.Authorizer{
		{Name: "grpc", GRPC: true, Host: registrytest.AuthorizerHost, Port: 9191, Timeout: time.Second, StatusOnError: 403},
		{Name: "http", Host: registrytest.AuthorizerHost, Port: 9192, Timeout: time.Second, StatusOnError: 403, FailOpen: seed%4 == 0},
	}
	return world{objects: made.Objects, mesh: settings}
}

// frontedTry is what a pod without a sidecar sends: to Services, to pods, to hosts outside, and whatever else.
func frontedTry(r *rand.Rand, e *envoys) tried {
	x := meshTry(r, e)
	x.from.Namespace, x.from.Account, x.from.Address = one(r, registrytest.FrontingNamespaces), one(r, registrytest.Accounts), podAddress.Addr()
	x.At, x.upgrade = registrytest.PolicyTime.Add(time.Duration(r.IntN(5)-1)*500*time.Millisecond), false
	switch r.IntN(6) {
	case 0, 1, 2:
		x.Host = one(r, []string{"web", "db", "api"}) + "." + one(r, registrytest.FrontingNamespaces) + ".svc.cluster.local"
		x.Port, x.Scheme = one(r, []uint32{80, 80, 80, 8080, 443, 5432}), policy.HTTP
	case 3:
		x.Host, x.Port, x.Scheme = one(r, registrytest.FrontingPods), one(r, []uint32{80, 8080, 5432, 15020}), one(r, []policy.Scheme{policy.HTTP, policy.TCP, policy.TLS})
	case 4:
		x.Host, x.Port, x.Scheme = strings.ToLower(strings.Replace(one(r, hostsIn(e.objects)), "*.", "q.", 1)), one(r, []uint32{80, 80, 443, 5432}), policy.HTTP
	}
	switch {
	case r.IntN(8) == 0:
	case x.Port == 443:
		x.Scheme = one(r, []policy.Scheme{policy.TLS, policy.HTTPS})
	case x.Port == 5432:
		x.Scheme = one(r, []policy.Scheme{policy.TCP, policy.TLS})
	}
	if x.Scheme == policy.HTTP && r.IntN(2) == 0 {
		x.Method, x.Path = one(r, []string{"", "POST"}), one(r, []string{"", "/api", "/api/x", "/b?q=1", "/a", "/admin"})
	} else {
		x.Method, x.Path = "", ""
	}
	return x.inSomeCase(r)
}

// throughFronts follows it through the node's proxy, the waypoint and the egress gateway, beside what a verdict says of it.
func (e *envoys) throughFronts(x tried, v policy.Verdict) (want, got fronted, steps []string, err error) {
	want = frontedBy(v)
	if x.Port == wire.InboundPort || translate.UnsupportedPod(e.snapshot, x.from.Namespace, x.from.Labels) != "" || shortAt(e.snapshot, x) {
		return want, got, nil, errNoName
	}
	identity := "spiffe://" + e.snapshot.Mesh.TrustDomain + "/ns/" + x.from.Namespace + "/sa/" + x.from.Account
	view, _ := e.node(translate.Node{ID: "sidecar~10.244.0.9~p.n~n.svc.cluster.local", Namespace: x.from.Namespace, Account: x.from.Account, Labels: x.from.Labels, IPv6: true, Ends: true, Reconnects: true}, identity)
	ip, ok := resolver{view, e, x}.address(x.Host)
	if !ok {
		return want, got, nil, errNoName
	}
	hop := frontedHop{from: podAddress, at: x.At}
	hop.through("the node", e.nodeOf(x.from.Namespace, identity), interpret.Connection{To: netip.AddrPortFrom(ip, uint16(x.Port)), Through: wire.OutboundPort, Redirected: true, From: podAddress, At: x.At, Bytes: x.bytes(), Chance: x.chance})
	if f, is := hop.towardsWaypoint(); is {
		got.Waypoint = registry.Ref{Namespace: f.Namespace, Name: f.Name}
		at := netip.AddrPortFrom(netip.MustParseAddr(f.Address), gatewayapi.HBONEPort)
		hop.through("the waypoint "+got.Waypoint.String(), e.waypoint(f), hop.out.Upstream.Arrives(at, hop.from))
		if hop.out.Entries != nil && hop.out.Entries[0].Log == string(wire.InboundHTTP) {
			got.Rule, _ = authorizedBy(hop.out.Entries[0])
		} else {
			got.Rule = want.Rule // of connections the record has what denies in words
		}
		got.Asks = strings.Join(hop.out.Asked, ",")
		hop.from = netip.AddrPortFrom(at.Addr(), 41000)
	}
	if hop.err == nil && hop.out.Upstream != nil && hop.out.Upstream.Metadata["sallyport"]["role"] == wire.RoleGateway {
		got.Gateway = atSidecar(hop.out).Gateway
		class := translate.Class{Kind: translate.Gateway, Gateway: got.Gateway, Port: uint32(gatewayAddress.Port()), OnDemand: true, Ends: true}
		_, gateway := e.class(class, translate.GatewayPoliced(e.snapshot.AuthorizingExit(got.Gateway), nil), "")
		hop.through("the gateway "+got.Gateway.String(), gateway, hop.out.Upstream.Arrives(gatewayAddress, hop.from))
		if hop.out.Closed == "the client says nothing" && len(hop.out.Entries) == 0 {
			return want, got, hop.steps, errSilent
		}
	}
	if hop.err != nil {
		return want, got, hop.steps, hop.err
	}
	got.Allowed = hop.out.Upstream != nil && hop.out.Upstream.Cluster != wire.BlackHoleCluster
	if got.Allowed {
		return want, got, hop.steps, nil
	}
	got.Waypoint, got.Gateway, got.Rule, got.Asks = registry.Ref{}, registry.Ref{}, "", ""
	if len(hop.out.Entries) == 1 {
		_, _, got.Denies = ruledBy(hop.out.Entries[0])
		if got.Denies.Kind == wire.MeshConfig {
			got.Denies = config.Key{}
		}
	}
	if want.Denies.Kind == config.KindAuthorizationPolicy && (len(hop.out.Entries) == 0 || hop.out.Entries[0].Log != string(wire.InboundHTTP)) {
		got.Denies = want.Denies // in words alone
	}
	return want, got, hop.steps, nil
}

// frontedHop is how far something has come.
type frontedHop struct {
	out   interpret.Outcome
	from  netip.AddrPort // whom the next one has for its client
	at    time.Time
	steps []string
	err   error
}

func (h *frontedHop) through(who string, p *interpret.Proxy, c interpret.Connection) {
	if h.err != nil {
		return
	}
	c.At = h.at
	h.out, h.err = p.Connect(c)
	h.steps = append(append(h.steps, who+":"), h.out.Steps...)
}

// towardsWaypoint is the waypoint that the connection goes to.
func (h *frontedHop) towardsWaypoint() (registrytest.FrontingWaypoint, bool) {
	if h.err == nil && h.out.Upstream != nil {
		for _, f := range registrytest.FrontingWaypoints {
			for _, to := range h.out.Upstream.Addresses {
				if strings.HasPrefix(to, f.Address+":") {
					return f, true
				}
			}
		}
	}
	return registrytest.FrontingWaypoint{}, false
}

// waypoint is the proxy of a waypoint's pod.
func (e *envoys) waypoint(f registrytest.FrontingWaypoint) *interpret.Proxy {
	_, p := e.node(translate.Node{
		ID: "waypoint~" + f.Address + "~" + f.Name + "-1." + f.Namespace + "~" + f.Namespace + ".svc.cluster.local", Namespace: f.Namespace, Account: f.Name,
		Labels: map[string]string{gatewayapi.GatewayLabel: f.Name}, Ends: true,
	}, "spiffe://"+e.snapshot.Mesh.TrustDomain+"/ns/"+f.Namespace+"/sa/"+f.Name)
	return p
}
