package route

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
)

// Routes are those of one VirtualService, or of the delegate of one.
type Routes struct {
	HTTP []HTTP `json:",omitempty"`
	TLS  []L4   `json:",omitempty"`
	TCP  []L4   `json:",omitempty"`

	delegated []delegated // what is to be put into HTTP
}

// And is both, of objects that delegate nothing.
func (r Routes) And(more Routes) Routes {
	return Routes{HTTP: slices.Concat(r.HTTP, more.HTTP), TLS: slices.Concat(r.TLS, more.TLS), TCP: slices.Concat(r.TCP, more.TCP)}
}

// delegated is a route whose own ones another object writes: they stand before HTTP[before].
type delegated struct {
	root   HTTP
	to     config.Key
	before int
}

// Parse reads a VirtualService, or a delegate. Short names are completed with its namespace, as in Istio. A field that admission
// refuses is left out, or matches nothing; a route that can do nothing is left out.
func Parse(o *config.Object, spec *networking.VirtualService) Routes {
	p := parser{o: o, gateways: gatewayNames(spec.Gateways, o.Namespace)}
	var out Routes
	if p.gateways == nil {
		p.gateways = []string{Mesh}
	}
	for i, h := range spec.Http {
		r := p.http(h)
		r.Field = fmt.Sprintf("http[%d]", i)
		if d := h.Delegate; d != nil {
			if len(h.Match) > 0 && len(r.Matches) == 0 {
				continue // it matches nothing, and not all
			}
			out.delegated = append(out.delegated, delegated{r, DelegateKey(d, o.Namespace), len(out.HTTP)})
			continue
		}
		if r.does() {
			out.HTTP = append(out.HTTP, r)
		}
	}
	for i, t := range spec.Tls {
		matches := make([]L4Match, len(t.Match))
		for j, m := range t.Match {
			matches[j] = L4Match{Where: p.where(m.Port, m.Gateways, m.SourceLabels, m.SourceNamespace), SNI: names(m.SniHosts)}
			matches[j].Subnets = subnets(m.DestinationSubnets)
		}
		out.TLS = p.l4(out.TLS, fmt.Sprintf("tls[%d]", i), matches, t.Route)
	}
	for i, t := range spec.Tcp {
		var matches []L4Match
		for _, m := range t.Match {
			if m.SourceSubnet == "" { // else it is for nobody: a proxy is of one pod
				matches = append(matches, L4Match{Where: p.where(m.Port, m.Gateways, m.SourceLabels, m.SourceNamespace), Subnets: subnets(m.DestinationSubnets)})
			}
		}
		if len(t.Match) == 0 {
			matches = []L4Match{{Where: p.where(0, nil, nil, "")}}
		}
		out.TCP = p.l4(out.TCP, fmt.Sprintf("tcp[%d]", i), matches, t.Route)
	}
	return out
}

// Gateways are those that the object is for: Mesh, or "NAMESPACE/NAME"; by default the mesh.
func Gateways(names []string, namespace string) []string {
	if len(names) == 0 {
		return []string{Mesh}
	}
	return gatewayNames(names, namespace)
}

type parser struct {
	o        *config.Object
	gateways []string // of the VirtualService
}

func (p parser) where(port uint32, gateways []string, labels map[string]string, namespace string) Where {
	w := Where{Port: port, Gateways: p.gateways, SourceLabels: labels, SourceNamespace: namespace}
	if len(gateways) > 0 {
		w.Gateways, w.Named = gatewayNames(gateways, p.o.Namespace), true
	}
	return w
}

func (p parser) l4(list []L4, field string, matches []L4Match, to []*networking.RouteDestination) []L4 {
	t := L4{From: p.o.Key, Revision: p.o.Revision, Field: field, Matches: matches}
	for _, d := range to {
		if weight, ok := weightOf(d.GetWeight(), len(to)); ok && d.GetDestination() != nil {
			t.Destinations = append(t.Destinations, L4Destination{p.destination(d.Destination), weight})
		}
	}
	if len(matches) == 0 || len(t.Destinations) == 0 {
		return list
	}
	return append(list, t)
}

// weightOf is a destination's part. An only one has all; of several those without a weight get nothing.
func weightOf(weight int32, of int) (uint32, bool) {
	if of == 1 {
		return 1, true
	}
	return min(uint32(max(weight, 0)), uint32(maxWeights/of)), weight > 0
}

// maxWeights bounds the sum of a route's weights: Envoy's is that of 32 bits.
const maxWeights = 1 << 31

func (p parser) destination(d *networking.Destination) Destination {
	return Destination{Host: FullName(d.Host, p.o.Namespace), Subset: d.Subset, Port: d.GetPort().GetNumber()}
}

// FullName completes a short name, as that of a Kubernetes Service of the namespace. It is in lower case.
func FullName(name, namespace string) string {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if name == "" || name[0] == '*' || strings.Contains(name, ".") {
		return name
	}
	return name + "." + namespace + ".svc.cluster.local"
}

// gatewayNames reads NAME, NAMESPACE/NAME, "./NAME" and the old form NAME.NAMESPACE[.svc…]. What has more parts is a name that no Gateway has: so are listeners
// of the Gateway API called, and to these only routes are attached that they let in.
func gatewayNames(in []string, namespace string) []string {
	var out []string
	for _, g := range in {
		ns, name, qualified := strings.Cut(g, "/")
		switch {
		case g == Mesh:
		case strings.Contains(name, "/"):
			g = ns + "/"
		case qualified && ns == ".":
			g = namespace + "/" + name
		case qualified:
		case strings.Contains(g, "."):
			name, rest, _ := strings.Cut(g, ".")
			ns, _, _ := strings.Cut(rest, ".")
			g = ns + "/" + name
		default:
			g = namespace + "/" + g
		}
		out = append(out, g)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func names(in []string) []host.Name {
	out := make([]host.Name, len(in))
	for i, n := range in {
		out[i] = host.Name(strings.TrimSuffix(strings.ToLower(n), "."))
	}
	return out
}

func subnets(in []string) (out []netip.Prefix) {
	for _, s := range in {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked())
		} else if ip, err := netip.ParseAddr(s); err == nil {
			out = append(out, netip.PrefixFrom(ip, ip.BitLen()))
		} else {
			out = append(out, netip.Prefix{}) // it contains nothing
		}
	}
	return out
}
