package translate

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/accesslog"
)

// headerDialled tells a gateway the address, with its port, that a client chose among those of a service with resolution NONE: a
// tunnel's name does (tunnelName), or a CONNECT. It is what the client says it wants; the gateway holds it against the
// addresses that were written for the host.
const headerDialled = "sallyport-dialled"

// dials says whether an exit connects a row's tunnels to the address that the client chose. A forward proxy's clients choose none.
func (r *exitRow) dials(f exitFor) bool {
	return f.verified && r.closed == nil && r.port.Protocol == registry.TCP && r.svc.Dialled()
}

// dialledName is the name of the cluster for it, beside the one that resolves the host for requests.
func (r *exitRow) dialledName() string {
	return subsetName(r.port.Number, "dialled."+r.svc.Namespace, r.svc.Host)
}

// dialledCluster connects to where the client wanted.
func (r *exitRow) dialledCluster(f exitFor) *Resource {
	c := originalDestination(r.dialledName(), accesslog.RoleExternal)
	c.ConnectTimeout = durationpb.New(r.rule.ConnectTimeoutFor(r.port.Number, f.connect))
	c.Metadata = reviseOpaque(metadata(accesslog.RoleExternal, configOf(r.svc.SourceOf(r.port))), r.svc, r.port)
	c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	return seal(f.clusters(), c.Name, c)
}

// dialledRoutes take tunnels to the addresses that were written, and no others.
func (r *exitRow) dialledRoutes() []*routev3.Route {
	var out []*routev3.Route
	for _, p := range r.far.Dialled {
		t := tunnelRoute(r.svc, r.port, r.dialledName(), state(stateOriginalDst, "%REQ("+headerDialled+")%", once))
		t.Match.Headers = []*routev3.HeaderMatcher{{Name: headerDialled, HeaderMatchSpecifier: matches(dialledRegex(p, r.port.Number))}}
		out = append(out, t)
	}
	return append(out, refuse(blockAllRoute, anyTunnel(), 403,
		"sallyport: the address that was dialled for %REQ(:AUTHORITY)% is none that the gateway connects to: spec.addresses has to name it, and it has to be public or allowed\n",
		decidedBy(configOf(r.svc.SourceOf(r.port)))))
}

// dialledAnswers are the same for questions.
func (r *exitRow) dialledAnswers() []*routev3.Route {
	var out []*routev3.Route
	for _, p := range r.far.Dialled {
		row := answer{route: "default", cluster: r.dialledName(), revision: r.svc.RevisionOf(r.port)}.row(asksAbout(""))
		row.Match.Headers = []*routev3.HeaderMatcher{{Name: headerDialled, HeaderMatchSpecifier: matches(dialledRegex(p, r.port.Number))}}
		out = append(out, row)
	}
	return append(out, nothing(blockAllRoute, configOf(r.svc.SourceOf(r.port)), r.svc.RevisionOf(r.port)).row(asksAbout("")))
}

// dialledRegex is an expression (RE2) for the addresses of a range, with the port; of IPv6 for single ones only.
func dialledRegex(p netip.Prefix, port uint32) string {
	end := ":" + strconv.FormatUint(uint64(port), 10)
	if p.IsSingleIP() {
		return regexp.QuoteMeta(netip.AddrPortFrom(p.Addr(), uint16(port)).String())
	}
	var octets []string
	for i, b := range p.Masked().Addr().AsSlice() {
		switch fixed := p.Bits() - 8*i; {
		case fixed >= 8:
			octets = append(octets, strconv.Itoa(int(b)))
		case fixed <= 0:
			octets = append(octets, "[0-9]+")
		default:
			var values []string
			for v := int(b); v < int(b)+1<<(8-fixed); v++ {
				values = append(values, strconv.Itoa(v))
			}
			octets = append(octets, fmt.Sprintf("(%s)", strings.Join(values, "|")))
		}
	}
	return strings.Join(octets, `\.`) + end
}
