package translate_test

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	netratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ratelimit/v3"
	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

// ours is what namespace team-a, the root namespace and the cluster have.
const ours = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api, namespace: team-a}
spec:
  hosts: [api.own.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: https, protocol: HTTPS}, {number: 5432, name: tcp, protocol: TCP}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: wild, namespace: team-a}
spec:
  hosts: ["*.wild.test", "*.deep.wild.test"]
  location: MESH_EXTERNAL
  resolution: NONE
  exportTo: ["."]
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: https, protocol: HTTPS}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: h71, namespace: team-a}
spec:
  hosts: [h-71.example]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 9000, name: tcp, protocol: TCP}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: addressed, namespace: team-a}
spec:
  hosts: [addressed.own.test]
  location: MESH_EXTERNAL
  resolution: STATIC
  addresses: [203.0.113.7, 203.0.113.64/28]
  endpoints: [{address: 203.0.113.7}]
  ports: [{number: 9000, name: tcp, protocol: TCP}, {number: 8080, name: http, protocol: HTTP}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: inside, namespace: team-a}
spec:
  hosts: [inside.own.test]
  location: MESH_EXTERNAL
  resolution: STATIC
  addresses: [203.0.113.70]
  endpoints: [{address: 203.0.113.70}]
  ports: [{number: 9000, name: tcp, protocol: TCP}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: direct, namespace: team-a, annotations: {egress.sallyport.io/gateway: direct}}
spec:
  hosts: [direct.own.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 7070, name: tcp, protocol: TCP}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: direct, namespace: team-a}
spec:
  host: direct.own.test
  trafficPolicy: {tls: {mode: SIMPLE, sni: mine.test}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: roots, namespace: istio-system}
spec:
  hosts: ["*.root.test", root.test]
  location: MESH_EXTERNAL
  resolution: NONE
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: https, protocol: HTTPS}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: rootaddress, namespace: istio-system}
spec:
  hosts: [rooted.test]
  location: MESH_EXTERNAL
  resolution: STATIC
  addresses: [203.0.113.200, 198.18.0.0/15]
  endpoints: [{address: 203.0.113.200}]
  ports: [{number: 9000, name: tcp, protocol: TCP}]
---
apiVersion: v1
kind: Service
metadata: {name: checkout, namespace: store}
spec:
  clusterIP: 10.96.0.10
  ports: [{name: http, port: 80, targetPort: 8080}, {name: tls, port: 443, appProtocol: tls}, {name: tcp-pg, port: 5432}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: checkout-1, namespace: store, labels: {kubernetes.io/service-name: checkout}}
addressType: IPv4
endpoints: [{addresses: [10.244.0.5]}]
ports: [{name: http, port: 8080}, {name: tls, port: 443}, {name: tcp-pg, port: 5432}]
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: store}
spec:
  clusterIP: None
  selector: {app: db}
  ports: [{name: tcp, port: 5432}]
---
apiVersion: v1
kind: Service
metadata: {name: a, namespace: team-a}
spec:
  clusterIP: 10.96.0.11
  selector: {app: a}
  ports: [{name: http, port: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: a-1, namespace: team-a, labels: {app: a}}
spec: {serviceAccountName: a}
status: {podIP: 10.244.0.9, phase: Running}
---
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec:
  selector: {istio: egressgateway}
  clusterIP: 10.96.0.9
  ports: [{name: https, port: 443, targetPort: 8443}]
---
apiVersion: v1
kind: Pod
metadata: {name: egress-1, namespace: istio-system, labels: {istio: egressgateway}}
spec: {serviceAccountName: egress}
status: {podIP: 10.244.0.2, phase: Running}
`

// prey is what the neighbour of these tests writes about.
var prey = registrytest.Prey{
	Names: []string{
		"api.own.test", "*.own.test", "*.wild.test", "a.wild.test", "b.deep.wild.test", "addressed.own.test", "inside.own.test", "direct.own.test", "*.root.test", "root.test", "rooted.test",
		"checkout.store", "checkout.store.svc", "checkout.store.svc.cluster.local", "db.store.svc.cluster.local", "db.store", "db-0.db.store", "a", "a.team-a", "checkout", "*.local", "*.test",
		"10-244-0-5.store.pod.cluster.local", "*.svc",
	},
	Addresses: []string{"203.0.113.7", "203.0.113.70", "203.0.113.64/28", "203.0.113.0/24", "203.0.113.200", "198.18.0.0/15", "198.18.7.7", "10.96.0.10", "10.96.0.0/12", "10.244.0.0/16", "10.244.0.5", "10.244.0.9", "10.244.0.2", "0.0.0.0/1", "::ffff:10.96.0.10", "240.240.0.0/12"},
	Gateways:  []string{"istio-egressgateway.istio-system.svc.cluster.local", "sallyport.istio-system.svc.cluster.local"},
	Services:  []string{"store/checkout", "store/db", "team-a/a", "istio-system/istio-egressgateway"},
	Ports:     []uint32{80, 443, 5432, 7070, 8080, 9000, 15001, 15006, 15090, 15020, 3306},
}

// What team-a's workloads try: every name, and every address, at every port.
var (
	triedNames = []string{
		"api.own.test", "a.wild.test", "x.a.wild.test", "b.deep.wild.test", "h-71.example", "addressed.own.test", "inside.own.test", "direct.own.test", "root.test", "x.root.test", "a.b.root.test", "rooted.test",
		"checkout.store", "checkout.store.svc", "checkout.store.svc.cluster.local", "db.store", "db.store.svc.cluster.local", "db-0.db.store", "db-0.db.store.svc.cluster.local", "a", "a.team-a", "a.team-a.svc.cluster.local",
		"10-244-0-5.store.pod.cluster.local", "istio-egressgateway.istio-system.svc.cluster.local",
	}
	triedAddresses = []string{"203.0.113.7", "203.0.113.66", "203.0.113.70", "203.0.113.200", "198.18.7.7", "10.96.0.10", "10.96.0.11", "10.96.0.9", "10.244.0.5", "10.244.0.9", "10.244.0.2"}
)

// TestNeighboursChangeNothing holds law 9: whatever a namespace writes, what another tries of its own, the root namespace's
// and the cluster's names and addresses meets what it met before, with the same verdict.
func TestNeighboursChangeNothing(t *testing.T) {
	t.Parallel()
	for _, exports := range []struct {
		name string
		mesh.Exports
	}{{"default", mesh.DefaultExports()}, {"istio", mesh.IstioExports()}} {
		t.Run(exports.name, func(t *testing.T) {
			trials := 8
			if registrytest.Raced || testing.Short() {
				trials = 2
			}
			for seed := range uint64(trials) {
				holdNeighbour(t, seed, exports.Exports)
			}
		})
	}
}

func holdNeighbour(t *testing.T, seed uint64, exports mesh.Exports) {
	t.Helper()
	cfg := mesh.Default()
	cfg.Exports = exports
	r := registry.New(&cfg)
	read := decode.File("ours.yaml", []byte(ours))
	for _, f := range read.Findings {
		t.Fatal(f)
	}
	var own []config.Change
	prey := prey
	prey.Unwritten = !exports[0].ResolvedOnly
	for i := range read.Objects {
		read.Objects[i].Created = time.Unix(1_600_000_000, 0)
		own = append(own, config.Change{Key: read.Objects[i].Key, Object: &read.Objects[i]})
	}
	world := registrytest.NewWorld(seed)
	before, _ := r.Apply(own)
	was := meets(before)
	for step := range 16 {
		c := world.Neighbour("team-b", prey)
		if step%2 == 0 && c.Object != nil && admission.Refused(admission.Validate(*c.Object)) {
			continue // half of what admission refuses comes through all the same: it may have been there before
		}
		s, _ := r.Apply([]config.Change{c})
		if d := cmp.Diff(was, meets(s)); d != "" {
			t.Fatalf("seed %d: after %d objects, the last being\n%s %v:\n%s", seed, step+1, c.Key, c.Object.Spec, d)
		}
		holdAccepted(t, s)
	}
}

// seen is what a proxy was given, to be asked as Envoy would.
type seen struct {
	*translate.View
	tables map[string]map[string]*routev3.VirtualHost // route table → domain
}

func see(s *registry.Snapshot, n translate.Node) seen {
	v := seen{translate.NewTranslator().Build(s, translate.Classify(s, n)), map[string]map[string]*routev3.VirtualHost{}}
	v.Walk(resource.VirtualHost, func(r *resource.Resource) bool {
		vh := &routev3.VirtualHost{}
		must(proto.Unmarshal(r.Value(), vh))
		table, _, _ := strings.Cut(r.Name, "/")
		if v.tables[table] == nil {
			v.tables[table] = map[string]*routev3.VirtualHost{}
		}
		for _, d := range vh.Domains {
			d = strings.ToLower(d)
			if v.tables[table][d] != nil && !strings.HasSuffix(d, "nobody.invalid") {
				panic(fmt.Sprintf("two rows of table %s have the domain %s", table, d))
			}
			v.tables[table][d] = vh
		}
		return true
	})
	return v
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

var (
	teamA   = translate.Node{ID: "sidecar~10.244.0.9~a-1.team-a~team-a.svc.cluster.local", Namespace: "team-a", Labels: map[string]string{"app": "a"}}
	gateway = translate.Node{ID: "router~10.244.0.2~egress-1.istio-system~istio-system.svc.cluster.local", Namespace: "istio-system", Labels: map[string]string{"istio": "egressgateway"}}
)

// meets is what everything that team-a tries meets: the verdict, the row of its sidecar's table with what it leads to, and
// the gateway's row.
func meets(s *registry.Snapshot) map[string]string {
	sidecar, exit := see(s, teamA), see(s, gateway)
	w := policy.Workload{Namespace: "team-a", Name: "a-1", Labels: teamA.Labels}
	out := map[string]string{}
	for _, port := range []uint32{80, 443, 5432, 7070, 8080, 9000} {
		for _, host := range append(slices.Clone(triedNames), triedAddresses...) {
			for _, scheme := range []policy.Scheme{policy.HTTP, policy.TLS, policy.TCP} {
				at := fmt.Sprintf("%s://%s:%d", scheme, host, port)
				v := policy.Decide(s, w, policy.Destination{Scheme: scheme, Host: host, Port: port})
				out[at+" decided"] = fmt.Sprint(v.Allowed, v.Path, v.Cluster, v.Gateway, v.DecidedBy)
				out[at+" row"] = sidecar.outbound(exit, scheme, host, port)
			}
			out["dns "+host] = sidecar.answer(host)
		}
	}
	return out
}

// answer is what the pod's DNS says.
func (v seen) answer(host string) string {
	r, ok := v.Get(resource.Name, host)
	if !ok {
		return "unknown"
	}
	n, err := name.Unmarshal(r.Value())
	must(err)
	return fmt.Sprint(n.Addresses)
}

// destination is where a client connects to that tries a host: the first address of the pod's DNS, or one outside.
func (v seen) destination(host string) netip.Addr {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip
	}
	if r, ok := v.Get(resource.Name, host); ok {
		if n, err := name.Unmarshal(r.Value()); err == nil && len(n.Addresses) > 0 {
			return n.Addresses[0]
		}
	}
	for service, ip := range map[string]string{"checkout.store": "10.96.0.10", "a.team-a": "10.96.0.11", "istio-egressgateway.istio-system": "10.96.0.9"} { // the cluster's DNS
		if host == service || host == service+".svc" || host == service+".svc.cluster.local" || host+".team-a" == service {
			return netip.MustParseAddr(ip)
		}
	}
	return netip.MustParseAddr("192.0.2.1")
}

// outbound finds the row of the table as the port's listener would, and follows it: by name where one is shown, then by the
// address, then as the narrowest range's host.
func (v seen) outbound(exit seen, scheme policy.Scheme, host string, port uint32) string {
	table := fmt.Sprint(port)
	l := &listenerv3.Listener{}
	r, ok := v.Get(resource.Listener, "0.0.0.0_"+table)
	if !ok {
		return "unregistered: " + v.lastResort("decide-any")
	}
	must(proto.Unmarshal(r.Value(), l))
	dst := v.destination(host)
	byAddress := dst.String()
	if dst.Is6() {
		byAddress = "[" + byAddress + "]"
	}
	_, err := netip.ParseAddr(host)
	literal := err == nil
	ranged, names := rangeOf(l, dst)
	read := scheme != policy.TCP && len(l.ListenerFilters) > 0 && (ranged == "" || names)
	asked := map[string]string{}
	var tries []string
	switch {
	case !read:
		tries = append(tries, byAddress)
	case scheme == policy.HTTP:
		tries = append(tries, host)
	case literal:
		tries, asked = append(tries, byAddress), map[string]string{"x-sallyport-asked": ":" + table}
	default:
		tries, asked = append(tries, host, byAddress), map[string]string{"x-sallyport-asked": host + ":" + table}
	}
	if ranged != "" && (scheme != policy.HTTP || !read) {
		tries = append(tries, ranged)
	}
	for i, authority := range tries {
		headers := asked
		if i == 0 && !literal {
			headers = nil
		}
		if out := v.row(exit, table, authority, scheme == policy.HTTP && read, headers); out != "" {
			return out
		}
	}
	return "unregistered: " + v.lastResort(table)
}

// rangeOf is the host whose range an address is in, if a listener has one, and whether names are read there all the same.
func rangeOf(l *listenerv3.Listener, dst netip.Addr) (host string, names bool) {
	bits := -1
	for _, c := range l.FilterChains {
		for _, p := range c.GetFilterChainMatch().GetPrefixRanges() {
			prefix := netip.MustParsePrefix(fmt.Sprintf("%s/%d", p.AddressPrefix, p.PrefixLen.GetValue()))
			if !prefix.Contains(dst) || prefix.Bits() <= bits {
				continue
			}
			for _, f := range c.Filters {
				asks := &netratelimitv3.RateLimit{}
				if f.GetTypedConfig().UnmarshalTo(asks) != nil {
					continue
				}
				for _, h := range asks.GetRateLimitService().GetGrpcService().GetInitialMetadata() {
					if h.Key == "x-sallyport-range" {
						host, _, _ = net.SplitHostPort(h.Value)
						bits, names = prefix.Bits(), strings.HasSuffix(c.Name, "-tls")
					}
				}
			}
		}
	}
	return host, names
}

// leads is where a route leads, without what is about requests only.
func leads(r *routev3.Route) string {
	return fmt.Sprint(r.GetRoute().GetCluster(), r.GetRoute().GetHostRewriteLiteral(), prototext.Format(r.GetDirectResponse()), prototext.Format(r.Metadata))
}

// row follows a table's row; "" where it is nobody's.
func (v seen) row(exit seen, table, authority string, request bool, headers map[string]string) string {
	vh := lookUp(v.tables[table], authority)
	if vh == nil {
		return ""
	}
	var out []string
	for _, r := range vh.Routes {
		if envoy.IsAnswer(r) == request || !headersMatch(r, authority+":"+table, headers) {
			continue
		}
		if slices.Contains([]string{"allow_any", "block_all", "made_up", "by_address"}, r.Name) {
			return ""
		}
		if said := answered(r); said != nil {
			out = append(out, r.Name, said["cluster"], said["behind"], said["port"], said["alpn"], v.cluster(said["cluster"]), v.cluster(said["behind"]))
			if said["told"] == "gateway" {
				out = append(out, exit.tunnelled(said, authority))
			}
			break
		}
		out = append(out, leads(r), v.cluster(r.GetRoute().GetCluster()))
		if strings.HasPrefix(r.GetRoute().GetCluster(), "outbound|443||istio-egressgateway.") {
			to := authority + ":" + table
			if rewritten := r.GetRoute().GetHostRewriteLiteral(); rewritten != "" {
				to = rewritten
			}
			named := map[string]string{}
			for _, h := range r.RequestHeadersToAdd {
				named[h.Header.Key] = h.Header.Value
			}
			out = append(out, exit.inbound(to, named, false))
		}
		break
	}
	return strings.Join(out, "\n")
}

func (v seen) lastResort(table string) string {
	r, ok := v.Get(resource.Route, table)
	if !ok {
		return "none"
	}
	t := &routev3.RouteConfiguration{}
	must(proto.Unmarshal(r.Value(), t))
	return t.VirtualHosts[len(t.VirtualHosts)-1].Name
}

// lookUp finds a domain as Envoy does: exact, then the longest suffix. A port that the table ignores is cut before.
func lookUp(table map[string]*routev3.VirtualHost, domain string) *routev3.VirtualHost {
	if vh := table[domain]; vh != nil {
		return vh
	}
	var best string
	for d := range table {
		if suffix, ok := strings.CutPrefix(d, "*"); ok && strings.HasSuffix(domain, suffix) && len(domain) > len(suffix) && len(d) > len(best) {
			best = d
		}
	}
	return table[best]
}

// headersMatch says whether a route's conditions hold for a request.
func headersMatch(r *routev3.Route, authority string, sent map[string]string) bool {
	for _, h := range r.Match.GetHeaders() {
		value, there := sent[h.Name]
		if _, present := h.HeaderMatchSpecifier.(*routev3.HeaderMatcher_PresentMatch); present {
			if there == h.InvertMatch {
				return false
			}
			continue
		}
		if h.Name == ":authority" {
			value = authority
		}
		m := h.GetStringMatch()
		if re := m.GetSafeRegex().GetRegex(); re != "" && regexp.MustCompile("^(?:"+re+")$").MatchString(value) == h.InvertMatch {
			return false
		}
		if m.GetExact() != "" && m.GetExact() != value || m.GetPrefix() != "" && !strings.HasPrefix(value, m.GetPrefix()) {
			return false
		}
	}
	for _, f := range r.Match.GetFilterState() {
		if kind := f.GetStringMatch().GetExact(); f.Key == "sallyport.question" && kind != "" && kind != sent["kind"] {
			return false
		}
		if f.Key != "sallyport.client" {
			continue // where a connection goes to, and whether it comes again
		}
		if !stringMatches(f.GetStringMatch(), principal) {
			return false
		}
	}
	return true
}

const principal = "spiffe://cluster.local/ns/team-a/sa/a"

func stringMatches(m *matcherv3.StringMatcher, value string) bool {
	switch {
	case m.GetSafeRegex() != nil:
		return regexp.MustCompile("^(?:" + m.GetSafeRegex().Regex + ")$").MatchString(value)
	default:
		return strings.HasPrefix(value, m.GetPrefix())
	}
}

// subset takes the namespace out of a cluster's name: whether several registered the host is no matter.
var subset = regexp.MustCompile(`outbound\|(\d+)\|[a-z-]*\|`)

// answered are the values of an answer, if a route gives one.
func answered(r *routev3.Route) map[string]string {
	if !envoy.IsAnswer(r) || r.GetDirectResponse() == nil {
		return nil
	}
	m := &servicev3.RateLimitResponse{}
	must(proto.Unmarshal(r.GetDirectResponse().GetBody().GetInlineBytes(), m))
	out := map[string]string{}
	for k, v := range m.DynamicMetadata.GetFields() {
		out[k] = v.GetStringValue()
	}
	return out
}

// tunnelled is what the gateway does with a tunnel of team-a's to which a sidecar's answer leads.
func (v seen) tunnelled(said map[string]string, authority string) string {
	name := said["sni"]
	switch {
	case said["sni_of"] != "":
		name = said["sni_of"] + authority
	case said["dialled"] != "":
		name = said["dialled"] + "203.0.113.7:9000" + said["host"]
	}
	parts := strings.SplitN(name, "_.", 4)
	ns, dialled, _ := strings.Cut(parts[2], "~")
	headers := map[string]string{"kind": strings.TrimPrefix(said["alpn"], "sallyport-")}
	if ns != "" {
		headers["sallyport-registered-in"] = ns
	}
	if dialled != "" {
		headers["sallyport-dialled"] = dialled
	}
	return v.inbound(parts[3]+":"+parts[1], headers, true)
}

// inbound is what the gateway does with a request or a tunnel of team-a's.
func (v seen) inbound(authority string, headers map[string]string, tunnel bool) string {
	table := v.tables[wire.ExitRoute]
	vh := lookUp(table, authority)
	if vh == nil { // a pattern's row has the port
		host, port, _ := net.SplitHostPort(authority)
		for h := host; vh == nil && h != ""; {
			_, rest, _ := strings.Cut(strings.TrimPrefix(h, "*."), ".")
			if h = ""; rest != "" {
				h = "*." + rest
				vh = table[h+":"+port]
			}
		}
	}
	if vh == nil {
		return "the gateway does not know it"
	}
	for _, r := range vh.Routes {
		if envoy.IsAnswer(r) != tunnel || r.Match.GetConnectMatcher() != nil || !headersMatch(r, authority, headers) {
			continue
		}
		if said := answered(r); said != nil {
			return subset.ReplaceAllString(fmt.Sprint(r.Name, said["config"], said["cluster"], said["behind"], v.cluster(said["cluster"]), v.cluster(said["behind"])), "outbound|$1||")
		}
		let := vh.TypedPerFilterConfig["envoy.filters.http.rbac"]
		if own := r.TypedPerFilterConfig["envoy.filters.http.rbac"]; own != nil {
			let = own
		}
		if let != nil {
			rbac := &httprbacv3.RBACPerRoute{}
			must(let.UnmarshalTo(rbac))
			in := false
			for _, p := range rbac.Rbac.Rules.GetPolicies() {
				for _, who := range p.Principals {
					in = in || stringMatches(who.GetAuthenticated().PrincipalName, principal)
				}
			}
			if !in {
				return "the gateway does not let it in"
			}
		}
		state := ""
		for filter, config := range r.TypedPerFilterConfig {
			if filter != "envoy.filters.http.rbac" {
				state += filter + string(config.Value)
			}
		}
		where := regexp.MustCompile(`outbound\|\d+\|[^|]*\|[^"\s]+`).FindString(prototext.Format(r) + state)
		return subset.ReplaceAllString(prototext.Format(r.GetDirectResponse())+prototext.Format(r.Metadata)+v.cluster(strings.TrimRight(where, "\x00\x01\x02\x18\x10")), "outbound|$1||")
	}
	return "no route"
}

// cluster is a cluster with its endpoints.
func (v seen) cluster(name string) string {
	for _, t := range []resource.Type{resource.Cluster, resource.OnDemandCluster} {
		r, ok := v.Get(t, name)
		if !ok {
			continue
		}
		c, e := &clusterv3.Cluster{}, &endpointv3.ClusterLoadAssignment{}
		must(proto.Unmarshal(r.Value(), c))
		if l, ok := v.Get(resource.Endpoints, name); ok {
			must(proto.Unmarshal(l.Value(), e))
		}
		return prototext.Format(c) + prototext.Format(e)
	}
	return "no cluster " + name
}

// holdAccepted holds that Envoy takes all that team-a's proxies and the gateway get: each message is valid by itself, and no
// two listeners have one address.
func holdAccepted(t *testing.T, s *registry.Snapshot) {
	t.Helper()
	for _, n := range []translate.Node{teamA, gateway} {
		v := see(s, n)
		at := map[string]string{"0.0.0.0:15090": "the proxy's statistics"}
		for _, kind := range resource.Types() {
			v.Walk(kind, func(r *resource.Resource) bool {
				if kind == resource.Name {
					return true
				}
				m, err := r.Any().UnmarshalNew()
				must(err)
				if err := m.(interface{ ValidateAll() error }).ValidateAll(); err != nil {
					t.Errorf("%s %q: %v", kind.URL(), r.Name, err)
				}
				if l, ok := m.(*listenerv3.Listener); ok && l.Address != nil {
					a := l.Address.GetSocketAddress()
					address := fmt.Sprintf("%s:%d", a.Address, a.GetPortValue())
					if at[address] != "" {
						t.Errorf("the listeners %q and %q have the address %s", at[address], r.Name, address)
					}
					at[address] = r.Name
				}
				return true
			})
		}
	}
}
