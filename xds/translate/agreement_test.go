package translate_test

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/translate/interpret"
	"github.com/sallyport/sallyport/xds/wire"
)

// observed is what happens to a request, in the words of a verdict.
type observed struct {
	Allowed   bool
	Path      string
	Cluster   string
	Gateway   registry.Ref
	DecidedBy config.Key
	// Rule is the rule of a policy that allows or denies, and WouldDeny the one that would, if those that are observed were enforced.
	Rule, WouldDeny string
	// Authorized and WouldRefuse are the same of AuthorizationPolicies.
	Authorized, WouldRefuse string
	// Asks is the authorizer that is asked, and by which rule.
	Asks string
}

func (o observed) String() string {
	verdict := map[bool]string{true: "allowed", false: "denied"}[o.Allowed]
	return fmt.Sprintf("%s, %s, cluster %q, gateway %q, decided by %q, rule %q, would deny %q, authorized by %q, would refuse %q, asks %q", verdict, o.Path, o.Cluster, o.Gateway, o.DecidedBy, o.Rule, o.WouldDeny, o.Authorized, o.WouldRefuse, o.Asks)
}

// decided is what policy says.
func decided(v policy.Verdict) observed {
	o := observed{Allowed: v.Allowed, Path: v.Path, Cluster: v.Cluster, Gateway: v.Gateway, DecidedBy: v.DecidedBy.Key, Rule: saidOf(v.Ruling), WouldDeny: saidOf(v.WouldDeny)}
	o.authorized(v)
	if o.Path == policy.PathBlackhole {
		o.Cluster = "BlackHoleCluster" // also where a route answers by itself
	}
	return o
}

// decoder turns sealed resources into messages, each once.
type decoder struct {
	messages map[string]proto.Message
	seen     interpret.Seen
	unsaid   bool // rows do not say their hosts
	onUse    bool // gateways begin without rows
	came     int  // how much came to gateways
	fetched  int  // of that, how much had its row fetched
}

func newDecoder() *decoder {
	return &decoder{messages: map[string]proto.Message{}, seen: interpret.Seen{}}
}

// proxy is the Envoy that has views.
func (d *decoder) proxy(identity string, views ...*translate.View) *interpret.Proxy {
	var all []interpret.Resource
	for _, v := range views {
		all = append(all, d.decoded(v)...)
	}
	p, err := interpret.New(all, []string{identity}, d.seen)
	must(err)
	return p
}

func (d *decoder) decoded(v *translate.View) (all []interpret.Resource) {
	for _, kind := range resource.Types() {
		if kind == resource.Name || kind == resource.Secret || kind == resource.ServerName {
			continue
		}
		v.Walk(kind, func(r *resource.Resource) bool {
			key := fmt.Sprint(kind, r.Version, r.Name)
			m := d.messages[key]
			if m == nil {
				var err error
				m, err = r.Any().UnmarshalNew()
				must(err)
				if row, ok := m.(*routev3.VirtualHost); ok && d.unsaid {
					row.Metadata = nil
					delete(row.TypedPerFilterConfig, "sallyport.asked.host") // what looks for the host instead is on
				}
				d.messages[key] = m
			}
			all = append(all, interpret.Resource{Name: r.Name, Message: m, OnDemand: kind == resource.OnDemandCluster})
			return true
		})
	}
	return all
}

// tried is what a workload tries.
type tried struct {
	from policy.Workload
	policy.Destination
	as   string // the name as the client writes it, in its own case
	path string // of a request
	// at is the workload's address, if it is not podAddress.
	at netip.Addr
	// upgrade is that a request asks for WebSocket.
	upgrade bool
	chance  uint64
}

func (x tried) String() string {
	labels := ""
	for k, v := range x.from.Labels {
		labels += "?" + k + "=" + v
	}
	return fmt.Sprintf("from %s/%s%s: %s://%s:%d%s", x.from.Namespace, x.from.Name, labels, x.Scheme, x.as, x.Port, x.Method+x.Path)
}

// envoys are the proxies of one snapshot, made when they are asked for.
type envoys struct {
	*decoder
	snapshot *registry.Snapshot
	objects  map[config.Key]*config.Object
	made     *translate.Translator
	views    map[translate.Class]*translate.View
	policies map[translate.PolicyClass]*translate.View
	proxies  map[governed]*interpret.Proxy
}

// governed is proxies that are the same: they see the same hosts, and the same policies govern them.
type governed struct {
	translate.Class
	translate.PolicyClass
	identity string
}

func envoysOf(d *decoder, s *registry.Snapshot, objects map[config.Key]*config.Object) *envoys {
	return &envoys{d, s, objects, translate.NewTranslator(), map[translate.Class]*translate.View{}, map[translate.PolicyClass]*translate.View{}, map[governed]*interpret.Proxy{}}
}

// node gives a proxy, and the hosts that it sees.
func (e *envoys) node(n translate.Node, identity string) (*translate.View, *interpret.Proxy) {
	return e.class(translate.Classify(e.snapshot, n), translate.PolicedBy(e.snapshot, n), identity)
}

func (e *envoys) class(c translate.Class, by translate.PolicyClass, identity string) (*translate.View, *interpret.Proxy) {
	if e.views[c] == nil {
		e.views[c] = build(e.made, e.snapshot, c, e.views)
	}
	if e.policies[by] == nil {
		e.policies[by] = translate.BuildPolicies(e.snapshot, by)
	}
	g := governed{c, by, identity}
	if e.proxies[g] == nil {
		e.proxies[g] = e.proxy(identity, e.views[c], e.policies[by])
	}
	return e.views[c], e.proxies[g]
}

var (
	podAddress     = netip.MustParseAddrPort("10.244.0.9:41000")
	gatewayAddress = netip.MustParseAddrPort("10.244.0.2:8443")
	elsewhere      = netip.MustParseAddr("198.51.100.1") // what nobody wrote
)

// errNoName is that the pod's DNS has no address for a name: nothing is connected to.
var errNoName = errors.New("no such name")

// errSilent is that a gateway waited in vain for the ClientHello of who says nothing: Envoy cuts that off and logs nothing.
var errSilent = errors.New("a client that says nothing where it has to be TLS")

// happens follows what a workload tries through its proxy, and through the gateway behind it.
func (e *envoys) happens(x tried) (o observed, steps []string, err error) {
	account := cmp.Or(x.from.Account, "app")
	node := translate.Node{ID: "sidecar~10.244.0.9~p.n~n.svc.cluster.local", Namespace: x.from.Namespace, Account: account, Labels: x.from.Labels, IPv6: true, Ends: true, Reconnects: true}
	identity := "spiffe://" + e.snapshot.Mesh.TrustDomain + "/ns/" + x.from.Namespace + "/sa/" + account
	pod := podAddress
	if x.at.IsValid() {
		pod = netip.AddrPortFrom(x.at, podAddress.Port())
	}
	view, sidecar := e.node(node, identity)
	ip, ok := resolver{view, e, x}.address(x.Host)
	if !ok {
		return o, nil, errNoName
	}
	to := netip.AddrPortFrom(ip, uint16(x.Port))
	out, err := sidecar.Connect(interpret.Connection{To: to, Through: 15001, Redirected: true, From: pod, At: x.At, Bytes: x.bytes(), Chance: x.chance})
	steps = append([]string{fmt.Sprintf("the sidecar, to %s:", to)}, out.Steps...)
	if err != nil {
		return o, steps, err
	}
	o = atSidecar(out)
	if x.Port == 15006 && len(out.Entries) == 0 { // the way in's listener gets it, and must not let strangers write into the pod's log
		o.DecidedBy = resolve.Workload(e.snapshot, x.from.Namespace, x.from.Labels).OutboundPolicy().By
		return o, steps, nil
	}
	if o.Path != policy.PathGateway {
		o.DecidedBy, err = by(out.Entries)
		o.governed(out.Entries)
		return o, steps, err
	}
	class := translate.Class{Kind: translate.Gateway, Gateway: o.Gateway, Port: uint32(gatewayAddress.Port()), OnDemand: true, Ends: true, Fetch: e.onUse}
	_, gateway := e.class(class, translate.GatewayPoliced(e.snapshot.AuthorizingExit(o.Gateway), nil), "")
	if x.chance%4 > 0 { // else it has what came before
		gateway.Forget()
	}
	arrives := out.Upstream.Arrives(gatewayAddress, pod)
	arrives.At = x.At
	there, err := gateway.Connect(arrives)
	e.came++
	if slices.ContainsFunc(there.Steps, func(step string) bool { return strings.Contains(step, "asks the agent") }) {
		e.fetched++
	}
	steps = append(append(steps, "the gateway "+o.Gateway.String()+":"), there.Steps...)
	if err != nil {
		return o, steps, err
	}
	if there.Closed == "the client says nothing" && len(there.Entries) == 0 {
		return o, steps, errSilent
	}
	if len(out.Upstream.Addresses) > 0 && len(out.Entries) > 0 {
		return o, steps, fmt.Errorf("the sidecar logs what the gateway tells: %v", out.Entries)
	}
	o.Asks = strings.Join(there.Asked, ",")
	o.Allowed = there.Upstream != nil && there.Upstream.Cluster != "BlackHoleCluster"
	o.DecidedBy, err = by(there.Entries)
	o.governed(there.Entries)
	return o, steps, err
}

// governed adds what policies say, as the one entry tells.
func (o *observed) governed(entries []interpret.Entry) {
	if len(entries) != 1 {
		return
	}
	o.Rule, o.WouldDeny, _ = ruledBy(entries[0])
	o.Authorized, o.WouldRefuse = authorizedBy(entries[0])
	if o.Asks != "" {
		o.Asks += " " + askedBy(entries[0])
	}
}

// forwarded follows what a program asks of the forward proxy: a request to it, or a CONNECT with the bytes behind.
func (e *envoys) forwarded(x tried) (o observed, steps []string, err error) {
	listens := netip.MustParseAddrPort("127.0.0.1:3128")
	_, up := e.node(translate.Node{ID: "router~127.0.0.1~up." + x.from.Namespace + "~n", Namespace: x.from.Namespace, Forward: listens.String(), OnDemand: true, Ends: true}, "")
	said := x.bytes()
	if said.Request == nil {
		inside := said
		inside.Waits = false // who says nothing where a ClientHello has to come is cut off, later and without a word
		authority := net.JoinHostPort(x.as+x.dot(), strconv.Itoa(int(x.Port)))
		said = interpret.Bytes{Request: &interpret.Request{Method: "CONNECT", Authority: authority, Headers: map[string]string{}, Tunnel: &inside}}
	}
	out, err := up.Connect(interpret.Connection{To: listens, From: netip.MustParseAddrPort("127.0.0.1:40000"), Bytes: said, At: x.At, Chance: x.chance})
	if err != nil {
		return o, out.Steps, err
	}
	o = observed{Path: policy.PathBlackhole, Cluster: "BlackHoleCluster"}
	if out.Upstream != nil && out.Upstream.Cluster != o.Cluster {
		o = observed{Allowed: true, Path: policy.PathGateway, Cluster: out.Upstream.Cluster}
	}
	o.DecidedBy, err = by(out.Entries)
	o.governed(out.Entries)
	return o, out.Steps, err
}

// atSidecar is what became of it there.
func atSidecar(out interpret.Outcome) observed {
	blocked := observed{Path: policy.PathBlackhole, Cluster: "BlackHoleCluster"}
	if out.Upstream == nil {
		return blocked
	}
	o := observed{Allowed: true, Cluster: out.Upstream.Cluster}
	switch role := out.Upstream.Metadata["sallyport"]["role"]; role {
	case wire.RoleBlackhole:
		return blocked
	case wire.RolePassthrough:
		o.Path = policy.PathPassthrough
	case wire.RoleExternal, wire.RoleMesh:
		o.Path = policy.PathDirect
	case wire.RoleGateway:
		o.Path = policy.PathGateway
		host := o.Cluster[strings.LastIndexByte(o.Cluster, '|')+1:]
		parts := strings.Split(host, ".")
		o.Gateway = registry.Ref{Namespace: parts[1], Name: parts[0]}
	default:
		panic("a cluster of role " + role)
	}
	return o
}

// by is the object that the one record would name (egress/audit/envoylog's judge).
func by(entries []interpret.Entry) (config.Key, error) {
	if len(entries) != 1 {
		return config.Key{}, fmt.Errorf("%d entries in the log: %+v", len(entries), entries)
	}
	e := entries[0]
	if _, _, denied := ruledBy(e); denied != (config.Key{}) {
		return denied, nil
	}
	route := e.Route
	if asked := e.Tags[wire.TagRoute]; asked != "" && asked != "-" {
		route = asked
	}
	object, role := e.Tags[wire.TagConfig], e.Tags[wire.TagRole]
	switch {
	case strings.HasPrefix(e.Details, "rbac_access_denied"), e.Details == "direct_response", e.Details == "fault_filter_abort":
		if object == "-" || !strings.HasPrefix(e.Details, "rbac") {
			object = e.Tags[wire.TagPolicy]
		}
	case strings.HasPrefix(route, wire.ClosedRoute), slices.Contains([]string{wire.NotExportedRoute, "wrong_protocol", "made_up", "block_all", wire.NoRoute}, route),
		strings.HasPrefix(e.Tags[wire.TagPolicy], "VirtualService/") && slices.Contains(wire.AnsweredLocally, e.Details),
		role == wire.RoleBlackhole, role == wire.RolePassthrough:
		object = e.Tags[wire.TagPolicy]
	}
	parts := strings.Split(object, "/")
	if len(parts) != 3 {
		return config.Key{}, fmt.Errorf("the record names the object %q: %+v", object, e)
	}
	return config.Key{Kind: config.Kind(parts[0]), Namespace: parts[1], Name: parts[2]}, nil
}

// dot is the root's, which some clients write at the end of a name.
func (x tried) dot() string {
	if _, err := netip.ParseAddr(x.as); err == nil || x.chance>>8%8 != 7 {
		return ""
	}
	return "."
}

// bytes are what the client says.
func (x tried) bytes() interpret.Bytes {
	authority := x.as
	if ip, err := netip.ParseAddr(x.as); err == nil && ip.Is6() {
		authority = "[" + x.as + "]"
	}
	switch x.Scheme {
	case policy.HTTP:
		authority += x.dot()
		if x.Port != 80 {
			authority = fmt.Sprintf("%s:%d", authority, x.Port)
		}
		request := &interpret.Request{Method: cmp.Or(x.Method, "GET"), Authority: authority, Path: cmp.Or(x.Path, "/"), Headers: map[string]string{"user-agent": "app"}}
		for name, values := range x.Headers {
			request.Headers[name] = strings.Join(values, ",")
		}
		if x.upgrade {
			request.Headers["connection"], request.Headers["upgrade"] = "upgrade", "websocket"
		}
		return interpret.Bytes{Request: request}
	case policy.HTTPS, policy.TLS:
		h := &interpret.Hello{SNI: x.as, ALPN: []string{"h2", "http/1.1"}}
		if x.Scheme == policy.TLS {
			h.ALPN = nil
		}
		if _, err := netip.ParseAddr(x.as); err == nil {
			h.SNI = ""
		}
		return interpret.Bytes{Hello: h}
	default:
		return interpret.Bytes{Waits: x.chance%2 == 0}
	}
}
