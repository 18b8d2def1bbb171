package mesh

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/inside"
)

// DNS is the sallyport.dns block: what the resolvers of sidecars and gateways answer, and whom they ask. Lists are in
// order, and without duplicates.
type DNS struct {
	// Unregistered is what the resolver of a pod does with names that nobody registered; "" leaves it to the policy for
	// outbound traffic: Refuse in REGISTRY_ONLY, Resolve in ALLOW_ANY.
	Unregistered Unregistered
	// Local are domains that are resolved with all below them even so, beside the cluster's own.
	Local []string
	// Rate is how many questions a second each client may make its resolver ask others, OddRate how many of those that
	// look like a tunnel's. 0: no limit.
	Rate, OddRate float64
	// Upstreams are the resolvers that gateways ask, as ADDRESS:PORT, tcp://… or tls://…#NAME; empty means those of the
	// machine's resolv.conf. Forward are the domains for which they ask others.
	Upstreams []string
	Forward   []Forward
	// ECH is what becomes of the keys in answers by which clients hide the name that they go to (Encrypted ClientHello); ""
	// is Strip.
	ECH ECH
	// AllowPrivate are the hosts that may resolve to private, loopback, link-local or metadata addresses, and the
	// addresses and address ranges that any host may have.
	AllowPrivate []string
	// AllowPrivateFor is the same for what a namespace registers, by namespace: its hosts and named endpoints may resolve to
	// such addresses if they are in the list by name, and it may write such addresses down for endpoints. Hosts that are in
	// the lists of others are not for it.
	AllowPrivateFor map[string][]string
}

// Unregistered is what becomes of names that nobody registered.
type Unregistered string

// The two ways.
const (
	Refuse  Unregistered = "refuse" // there is no such name
	Resolve Unregistered = "resolve"
)

// ECH is what becomes of the keys for Encrypted ClientHello.
type ECH string

// The two ways.
const (
	Strip ECH = "strip" // pods are not told them
	Keep  ECH = "keep"
)

// Forward names the resolvers for a domain and all below it.
type Forward struct {
	Domain    string
	Upstreams []string
}

// Refuses says whether names that nobody registered are refused where unregistered traffic goes out, or does not.
func (d DNS) Refuses(allowAny bool) bool {
	return d.Unregistered == Refuse || d.Unregistered == "" && !allowAny
}

// PrivateFor is what a namespace's registrations may have beside public addresses.
func (d DNS) PrivateFor(ns string) inside.Allowed {
	allowed, err := inside.Parse(slices.Concat(d.AllowPrivate, d.AllowPrivateFor[ns]))
	if err != nil {
		return inside.Allowed{} // reading the settings refused it
	}
	return allowed
}

// PrivateHosts are all that may resolve to addresses that are not public, for whichever namespace, sorted: that others
// than those do not use the names of a namespace's list is held where registrations are judged (see PrivateOf).
func (d DNS) PrivateHosts() []string {
	out := slices.Clone(d.AllowPrivate)
	for _, list := range d.AllowPrivateFor {
		for _, pattern := range list {
			if !isRange(pattern) {
				out = append(out, pattern)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// PrivateOf gives the namespaces whose lists have a host that the name, which may be a wildcard, stands for, in order.
func (d DNS) PrivateOf(name string) []string {
	var out []string
	for _, ns := range slices.Sorted(maps.Keys(d.AllowPrivateFor)) {
		if slices.ContainsFunc(d.AllowPrivateFor[ns], func(pattern string) bool {
			return !isRange(pattern) && host.Overlap(host.Name(pattern), host.Name(name))
		}) {
			out = append(out, ns)
		}
	}
	return out
}

func isRange(pattern string) bool {
	_, err := netip.ParseAddr(pattern)
	return err == nil || strings.Contains(pattern, "/")
}

// dns reads the block.
func (b *block) dns(tree any) DNS {
	var out DNS
	in := b.fields("sallyport.dns", tree, "unregistered", "local", "rate", "oddRate", "upstreams", "forward", "ech", "allowPrivate", "allowPrivateFor")
	at := func(field string) (string, any) { return "sallyport.dns." + field, in[field] }
	if s := b.text(at("unregistered")); s != "" {
		if out.Unregistered = Unregistered(s); out.Unregistered != Refuse && out.Unregistered != Resolve {
			b.add("sallyport.dns.unregistered", s, "is neither", `write "refuse" or "resolve"; without it names are refused in REGISTRY_ONLY`)
		}
	}
	if s := b.text(at("ech")); s != "" {
		if out.ECH = ECH(s); out.ECH != Strip && out.ECH != Keep {
			b.add("sallyport.dns.ech", s, "is neither", `write "strip" or "keep"; without it the keys are taken out of what pods are answered`)
		}
	}
	for path, s := range b.texts(at("local")) {
		out.Local = append(out.Local, b.domain(path, s))
	}
	out.Rate = b.rate(at("rate"))
	out.OddRate = b.rate(at("oddRate"))
	out.Upstreams = b.resolvers(at("upstreams"))
	out.Forward = b.forward(at("forward"))
	for path, s := range b.texts(at("allowPrivate")) {
		out.AllowPrivate = append(out.AllowPrivate, b.private(path, s))
	}
	out.AllowPrivateFor = b.privateFor(at("allowPrivateFor"))
	slices.Sort(out.Local)
	slices.Sort(out.AllowPrivate)
	out.Local, out.AllowPrivate = slices.Compact(out.Local), slices.Compact(out.AllowPrivate)
	return out
}

// domain reads a domain's name.
func (b *block) domain(at, s string) string {
	name, err := host.ParseExact(strings.TrimSuffix(s, "."))
	if err != nil {
		b.add(at, s, "is no domain", `write it as in "corp.example"`)
	}
	return name.String()
}

// rate reads a number of questions a second.
func (b *block) rate(at string, v any) float64 { return b.number(at, v, "questions") }

// number reads how many of something there may be in a second.
func (b *block) number(at string, v any, what string) float64 {
	rate := numeric(v)
	if rate < 0 || math.IsNaN(rate) || math.IsInf(rate, 0) {
		b.add(at, v, "is no rate", "write a number of "+what+" a second, 0 for no limit")
		return 0
	}
	return rate
}

// resolvers reads their addresses, which keep their order: it says which one is preferred.
func (b *block) resolvers(at string, v any) (out []string) {
	for path, s := range b.texts(at, v) {
		server, ok := parseResolver(s)
		switch {
		case !ok:
			b.add(path, s, "is no resolver's address", `write IP or IP:PORT, as in "10.0.0.10:53", or tcp://IP or tls://IP#NAME`)
		case !slices.Contains(out, server):
			out = append(out, server)
		}
	}
	return out
}

// forward reads the resolvers of each domain.
func (b *block) forward(at string, v any) (out []Forward) {
	in, ok := v.(map[string]any)
	if v != nil && !ok {
		b.add(at, v, "is no mapping", `write domains and their resolvers, as in {corp.example: ["10.0.0.53"]}`)
	}
	seen := map[string]bool{}
	for _, domain := range slices.Sorted(maps.Keys(in)) {
		path := at + "." + domain
		before := len(b.problems)
		f := Forward{Domain: b.domain(path, domain), Upstreams: b.resolvers(path, in[domain])}
		if len(f.Upstreams) == 0 && len(b.problems) == before {
			b.add(path, in[domain], "names no resolver", `write a list, as in ["10.0.0.53"]`)
		}
		if seen[f.Domain] && f.Domain != "" {
			b.add(path, domain, "is there twice", "write each domain once")
		}
		seen[f.Domain] = true
		out = append(out, f)
	}
	slices.SortFunc(out, func(x, y Forward) int { return strings.Compare(x.Domain, y.Domain) })
	return out
}

// privateFor reads the same for single namespaces.
func (b *block) privateFor(at string, v any) map[string][]string {
	in, ok := v.(map[string]any)
	if v != nil && !ok {
		b.add(at, v, "is no mapping", `write namespaces and what they may reach, as in {shop: ["10.1.0.0/16"]}`)
	}
	var out map[string][]string
	for _, ns := range slices.Sorted(maps.Keys(in)) {
		path := at + "." + ns
		if len(validation.IsDNS1123Label(ns)) > 0 {
			b.add(path, ns, "is no namespace's name", "use lower-case letters, digits and hyphens, at most 63")
		}
		var list []string
		for path, s := range b.texts(path, in[ns]) {
			list = append(list, b.private(path, s))
		}
		if out == nil {
			out = map[string][]string{}
		}
		slices.Sort(list)
		out[ns] = slices.Compact(list)
	}
	return out
}

// private reads what may have addresses that are not public.
func (b *block) private(at, s string) string {
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		return addr.Unmap().String()
	}
	if prefix, err := netip.ParsePrefix(s); err == nil {
		return prefix.Masked().String()
	}
	name, err := host.Parse(s)
	if err != nil {
		b.add(at, s, "is no host pattern", `write a host name, a suffix as in "*.corp.example", or an address range as in "10.1.0.0/16"`)
	}
	return name.String()
}

// parseResolver reads IP, IP:PORT, udp://…, tcp://… or tls://IP[:853]#NAME, and gives it in one form.
func parseResolver(s string) (string, bool) {
	scheme, rest, written := strings.Cut(s, "://")
	if !written {
		scheme, rest = "udp", s
	}
	scheme = strings.ToLower(scheme)
	port := uint16(53)
	if scheme == "tls" {
		port = 853
	}
	rest, name, named := strings.Cut(rest, "#")
	addr, err := netip.ParseAddrPort(rest)
	if err != nil {
		ip, err := netip.ParseAddr(strings.Trim(rest, "[]"))
		if err != nil {
			return "", false
		}
		addr = netip.AddrPortFrom(ip, port)
	}
	if addr.Port() == 0 || named && scheme != "tls" {
		return "", false
	}
	out := netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()).String()
	switch scheme {
	case "udp":
		return out, true
	case "tcp", "tls":
		out = scheme + "://" + out
	default:
		return "", false
	}
	if named {
		exact, err := host.ParseExact(strings.TrimSuffix(name, "."))
		if err != nil {
			return "", false
		}
		out += "#" + exact.String()
	}
	return out, true
}
