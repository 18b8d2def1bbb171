package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// Nobody is a host that cannot be (RFC 6761 section 6.4).
const Nobody = ondemand.FirstRow

// PlaceholderRow is a row of a table that leads nowhere. A listener waits until its table's rows
// have come, and Envoy does not count an answer without any: one whose table is empty would open after 15 s only. Tables
// that list their hosts need none.
func PlaceholderRow(table string, hosts InlineHosts) []*resource.Resource {
	if hosts != nil {
		return nil
	}
	name := wire.VhostName(table, Nobody)
	return []*resource.Resource{Seal(resource.VirtualHost, name, &routev3.VirtualHost{Name: name, Domains: []string{Nobody}})}
}

// InlineHosts lists the virtual hosts of route tables, for clients that cannot take them one by one: VHDS needs delta
// streams. nil means that tables leave them out. What such a client is sent grows with the mesh; agents are not
// such clients.
type InlineHosts map[string][]*routev3.VirtualHost

func (in InlineHosts) of(table string) []*routev3.VirtualHost { return in[table] }

// byRDS takes routes by the name of their table.
func byRDS(table string) *hcmv3.HttpConnectionManager_Rds {
	return &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: table, ConfigSource: byADS()}}
}

// byADS takes resources by the one stream for all.
func byADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}

// RouteTable is a route configuration whose hosts are resources of their own (VHDS), and only the last resort is in it;
// or, where hosts are given, one that lists them.
func RouteTable(name string, lastResort *routev3.VirtualHost, hosts InlineHosts, perPort bool) *routev3.RouteConfiguration {
	r := &routev3.RouteConfiguration{
		Name:         name,
		VirtualHosts: append(hosts.of(name), lastResort),
		// what Envoy adds for proxies behind it is nobody's business outside
		RequestHeadersToRemove:         []string{"x-forwarded-proto", "x-envoy-original-path", "x-envoy-decorator-operation"},
		IgnorePortInHostMatching:       perPort,
		ValidateClusters:               wrapperspb.Bool(false),
		MaxDirectResponseBodySizeBytes: wrapperspb.UInt32(MaxBody),
	}
	if name == wire.ExitRoute {
		r.RequestHeadersToRemove = append(r.RequestHeadersToRemove, wire.HeaderRegisteredIn, wire.HeaderDialled)
	}
	if hosts == nil {
		r.Vhds = &routev3.Vhds{ConfigSource: byADS()}
	}
	return r
}

// MaxBody is how long, in bytes, an answer of the proxy's own may be: users' direct responses are (config/admission).
const MaxBody = 1 << 20
