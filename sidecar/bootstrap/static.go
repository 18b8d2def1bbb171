package bootstrap

import "github.com/sallyport/sallyport/xds/wire"

// staticClusters are all of them the agent's socket, but for Envoy's own administration.
func staticClusters(o Options) list {
	out := list{
		agentCluster(XDSCluster, o.Socket), agentCluster(SDSCluster, o.Socket), agentCluster(AccessLogCluster, o.Socket),
		adminCluster(o.AdminPort),
	}
	if o.Questions != "" {
		out = append(out, underWayCluster(o.Socket))
	}
	return out
}

// underWayCluster has a stream for each request that the agent takes note of: how many those may be, the agent says.
func underWayCluster(path string) object {
	c := agentCluster(wire.UnderWayCluster, path)
	const most = 1<<32 - 1
	c["circuit_breakers"] = object{"thresholds": list{object{"max_connections": most, "max_pending_requests": most, "max_requests": most}}}
	return c
}

// agentCluster is one HTTP/2 connection to the agent's socket.
func agentCluster(name, path string) object {
	return object{
		"name":            name,
		"type":            "STATIC",
		"connect_timeout": "1s",
		"load_assignment": assignment(name, object{"pipe": object{"path": path}}),
		"typed_extension_protocol_options": object{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": object{
				"@type":                extensions + "upstreams.http.v3.HttpProtocolOptions",
				"explicit_http_config": object{"http2_protocol_options": object{}},
			},
		},
	}
}

func adminCluster(port uint16) object {
	return object{
		"name":            statsCluster,
		"type":            "STATIC",
		"connect_timeout": "0.25s",
		"load_assignment": assignment(statsCluster, address(adminAddress, port)),
	}
}

func assignment(name string, where object) object {
	return object{
		"cluster_name": name,
		"endpoints":    list{object{"lb_endpoints": list{object{"endpoint": object{"address": where}}}}},
	}
}

func staticListeners(o Options) list {
	out := list{statsListener(o)}
	if o.Questions != "" {
		cluster := questionsCluster
		if o.Role != Router {
			cluster = wire.LeavingDecide
		}
		out = append(out, questionsListener(o.Questions, cluster))
	}
	return out
}

// questionsListener hands the agent's questions to the internal listener where an egress gateway's table answers those about
// connections (xds/envoy), or where policies are asked of what leaves elsewhere. Other routers have no such cluster, and hang up. Only who owns the socket may ask.
func questionsListener(path, cluster string) object {
	return object{
		"name":                     "questions",
		"stat_prefix":              "questions", // by which a drain leaves it out (package supervise)
		"address":                  object{"pipe": object{"path": path, "mode": 0o600}},
		"ignore_global_conn_limit": true,
		"bypass_overload_manager":  true,
		"filter_chains": list{object{"filters": list{object{
			"name": "envoy.filters.network.tcp_proxy",
			"typed_config": object{
				"@type":       extensions + "filters.network.tcp_proxy.v3.TcpProxy",
				"stat_prefix": "questions", "cluster": cluster,
			},
		}}}},
	}
}

// What anybody on the network may have of the statistics listener, which the cap on all connections leaves out.
const (
	statsConnections = 64
	statsPatience    = "10s" // without a request
)

// statsListener shows Prometheus' page, and nothing else of the admin interface, to the network, unless it is for this machine: the page names the hosts that are used.
func statsListener(o Options) object {
	where := address("0.0.0.0", o.StatsPort)
	switch {
	case o.StatsLocal:
		where = address(adminAddress, o.StatsPort)
	case o.IPs[0].Is6() && !o.IPs[0].Is4In6():
		where = object{"socket_address": object{"address": "::", "port_value": o.StatsPort, "ipv4_compat": true}}
	}
	return object{
		"name":                              "prometheus_stats",
		"stat_prefix":                       "prometheus_stats",
		"address":                           where,
		"ignore_global_conn_limit":          true,
		"bypass_overload_manager":           true,
		"per_connection_buffer_limit_bytes": 32 << 10,
		"filter_chains": list{object{"filters": list{object{
			"name": "envoy.filters.network.connection_limit",
			"typed_config": object{
				"@type":       extensions + "filters.network.connection_limit.v3.ConnectionLimit",
				"stat_prefix": "stats", "max_connections": statsConnections,
			},
		}, object{
			"name": "envoy.filters.network.http_connection_manager",
			"typed_config": object{
				"@type":                   extensions + "filters.network.http_connection_manager.v3.HttpConnectionManager",
				"codec_type":              "HTTP1",
				"stat_prefix":             "stats",
				"request_headers_timeout": statsPatience, "stream_idle_timeout": "30s",
				"common_http_protocol_options": object{"idle_timeout": statsPatience},
				"route_config": object{"virtual_hosts": list{object{
					"name": "backend", "domains": list{"*"},
					"routes": list{object{
						"match": object{"path": "/stats/prometheus"},
						"route": object{"cluster": statsCluster},
					}},
				}}},
				"http_filters": list{object{
					"name":         "envoy.filters.http.router",
					"typed_config": object{"@type": extensions + "filters.http.router.v3.Router"},
				}},
			},
		}}}},
	}
}
