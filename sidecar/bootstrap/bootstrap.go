package bootstrap

import (
	"encoding/json"
	"fmt"
)

// Names of the static clusters, all of which are the agent's socket.
const (
	XDSCluster       = "xds-grpc"
	SDSCluster       = "sds-grpc"
	AccessLogCluster = "als-grpc"
	statsCluster     = "prometheus_stats"
	adminAddress     = "127.0.0.1"

	// questionsCluster is the control plane's (wire.ExitDecide).
	questionsCluster = "decide-egress"
)

const extensions = "type.googleapis.com/envoy.extensions."

type object = map[string]any
type list = []any

// JSON renders the bootstrap. The error names the option that is wrong.
func JSON(o Options) ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	ads := object{"ads": object{}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"}
	file := object{
		"node": NewNode(o),
		"admin": object{
			"address":                  address(adminAddress, o.AdminPort),
			"ignore_global_conn_limit": true,
			"profile_path":             "/dev/null",
		},
		"dynamic_resources": object{
			"ads_config": object{
				"api_type": "DELTA_GRPC", "transport_api_version": "V3", "set_node_on_first_message_only": true,
				"grpc_services": list{object{"envoy_grpc": object{"cluster_name": XDSCluster}}},
			},
			"cds_config": ads,
			"lds_config": listeners(o, ads),
		},
		"static_resources": object{
			"clusters":  staticClusters(o),
			"listeners": staticListeners(o),
		},
		"bootstrap_extensions": list{object{
			"name": "envoy.bootstrap.internal_listener",
			"typed_config": object{
				"@type":          extensions + "bootstrap.internal_listener.v3.InternalListener",
				"buffer_size_kb": internalBuffer,
			},
		}},
		"typed_dns_resolver_config": resolver(o),
		"layered_runtime":           runtime(),
		"overload_manager":          overload(o),
		"memory_allocator_manager":  allocator(),
		"stats_config":              stats(),
		"deferred_stat_options":     object{"enable_deferred_creation_stats": true},
	}
	out, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("bootstrap: metadata of %s.%s: %w", o.Name, o.Namespace, err)
	}
	return append(out, '\n'), nil
}

// listeners are a node's proxy's agent's to make, which sends them again when they are refused (sidecar/node): they come on a stream of
// their own.
func listeners(o Options, ads object) object {
	if o.Role != Ztunnel {
		return ads
	}
	return object{
		"initial_fetch_timeout": "0s", "resource_api_version": "V3",
		"api_config_source": object{
			"api_type": "DELTA_GRPC", "transport_api_version": "V3", "set_node_on_first_message_only": true,
			"grpc_services": list{object{"envoy_grpc": object{"cluster_name": XDSCluster}}},
		},
	}
}

// resolver makes Envoy ask nobody but the agent: no search domains, no resolv.conf to fall back to.
func resolver(o Options) object {
	return object{
		"name": "envoy.network.dns_resolver.cares",
		"typed_config": object{
			"@type":                     extensions + "network.dns_resolver.cares.v3.CaresDnsResolverConfig",
			"resolvers":                 list{address(o.Resolver.Addr().String(), o.Resolver.Port())},
			"use_resolvers_as_fallback": false,
			"dns_resolver_options":      object{"no_default_search_domain": true},
		},
	}
}

// runtime has the admin layer last, so that an operator's change in place wins.
//
// The http inspector reads with Envoy's older parser, which knows methods by their names. With the newer one any letters and digits may
// be a method, so that of bytes which are none the first 64 KiB are waited for, and a connection without a line's end in them is closed
// (source/extensions/filters/listener/http_inspector). Requests are read by the newer one all the same.
func runtime() object {
	return object{"layers": list{
		object{"name": "sallyport", "static_layer": object{
			"re2": object{"max_program_size": object{"error_level": 32768}},
			"envoy.reloadable_features.http_inspector_use_balsa_parser": false,
		}},
		object{"name": "admin", "admin_layer": object{}},
	}}
}

// address is an envoy.config.core.v3.Address.
func address(host string, port uint16) object {
	return object{"socket_address": object{"address": host, "port_value": port}}
}
