package bootstrap

// clusterStats are the statistics kept for a cluster. With deferred creation they exist only for clusters that saw
// traffic: what Prometheus scrapes follows the hosts in use, not the hosts that are registered.
const clusterStats = `(?:upstream_cx_(?:total|active|connect_fail|connect_timeout|overflow|rx_bytes_total|tx_bytes_total)` +
	`|upstream_rq_(?:total|active|timeout|retry|pending_overflow|completed|[0-9]xx)` +
	`|membership_(?:healthy|total)|ssl\.(?:handshake|connection_error|fail_verify_error|fail_verify_san))`

// toNobody is kept of clusters that datagrams go to: each counts one that began no session.
const toNobody = `upstream_cx_none_healthy`

// stats bounds what is kept, and finds a cluster's whole name: the default expression ends it at the first dot,
// which for "outbound|443||www.example.com" is inside the host.
func stats() object {
	prefixes := list{}
	for _, prefix := range []string{
		"access_logs.", "cluster_manager.", "connection_limit.", "control_plane.", "dns.", "dns_cache.", "http.", "listener.",
		"listener_manager.", "main_thread.", "overload.", "rbac.", "runtime.", "sds.", "server.", "tcp.", "tls_inspector.", "udp.",
		"cluster." + XDSCluster, "cluster." + SDSCluster, "cluster." + AccessLogCluster,
	} {
		prefixes = append(prefixes, object{"prefix": prefix})
	}
	patterns := append(prefixes,
		object{"safe_regex": object{"regex": `^cluster\..+\.` + clusterStats + `$`}},
		object{"safe_regex": object{"regex": `^cluster\.outbound\|[0-9]+\|udp\..*\.` + toNobody + `$`}},
	)
	return object{
		"use_all_default_tags": false,
		"stats_tags": list{
			object{"tag_name": "envoy.cluster_name", "regex": `^cluster\.((.+?)\.)(?:` + clusterStats + `|` + toNobody + `)$`},
			object{"tag_name": "envoy.http_conn_manager_prefix"},
			object{"tag_name": "envoy.listener_address"},
			object{"tag_name": "envoy.response_code"},
			object{"tag_name": "envoy.response_code_class"},
			object{"tag_name": "envoy.tcp_prefix"},
		},
		"stats_matcher": object{"inclusion_list": object{"patterns": patterns}},
	}
}
