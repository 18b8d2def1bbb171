package egressgateway

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/wire"
)

// dialledName is the name of the cluster for it, beside the one that resolves the host for requests.
func (r exitRow) dialledName() string {
	return wire.SubsetName(r.Port.Number, "dialled."+r.Service.Namespace, r.Service.Host)
}

// dialledCluster connects to where the client wanted.
func (r exitRow) dialledCluster() *resource.Resource {
	c := envoy.OriginalDestination(r.dialledName(), wire.RoleExternal)
	c.ConnectTimeout = durationpb.New(r.Rule.ConnectTimeoutFor(r.Port.Number, r.at.Connect))
	c.Metadata = farend.OpaqueRevision(envoy.Metadata(wire.RoleExternal, envoy.ObjectRef(r.Service.SourceOf(r.Port))), r.Service, r.Port)
	c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	return envoy.Seal(r.at.clusterType(), c.Name, c)
}

// dialledThere matches clients that dialled an address in a range.
func dialledThere(p netip.Prefix, port uint32) []*routev3.HeaderMatcher {
	return []*routev3.HeaderMatcher{{Name: wire.HeaderDialled, HeaderMatchSpecifier: envoy.HeaderMatches(dialledRegex(p, port))}}
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
