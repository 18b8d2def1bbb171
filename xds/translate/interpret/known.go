package interpret

import "maps"

// known are the messages of which fields are read, and those of their fields that change nothing here: how long something may
// take, how much of it there may be, which of several equal endpoints is taken, what is counted and how configuration is fetched.
var known = func() map[string]fields {
	all := map[string]fields{}
	for _, some := range []map[string]fields{knownListeners, knownRoutes, knownHTTP, knownNetwork, knownClusters, knownMatchers, knownLogs, knownCore} {
		maps.Copy(all, some)
	}
	return all
}()

// whole are messages that are looked at without asking for their fields.
var whole = map[string]bool{
	"google.protobuf.BoolValue": true, "google.protobuf.UInt32Value": true, "google.protobuf.StringValue": true, "google.protobuf.Struct": true,
	"envoy.extensions.transport_sockets.tls.v3.Secret": true, // who may read it is not said here
}

var knownListeners = map[string]fields{
	"envoy.config.listener.v3.Listener": set(
		"name address additional_addresses bind_to_port filter_chains filter_chain_matcher default_filter_chain listener_filters continue_on_listener_filters_timeout use_original_dst internal_listener metadata",
		"listener_filters_timeout per_connection_buffer_limit_bytes socket_options traffic_direction access_log"),
	"envoy.config.listener.v3.AdditionalAddress":                          set("address", ""),
	"envoy.config.listener.v3.Listener.InternalListenerConfig":            set("", ""),
	"envoy.config.listener.v3.ListenerFilter":                             set("name typed_config filter_disabled", ""),
	"envoy.config.listener.v3.ListenerFilterChainMatchPredicate":          set("or_match and_match not_match any_match destination_port_range", ""),
	"envoy.config.listener.v3.ListenerFilterChainMatchPredicate.MatchSet": set("rules", ""),
	"envoy.config.listener.v3.FilterChain":                                set("name filter_chain_match filters transport_socket", "transport_socket_connect_timeout"),
	"envoy.config.listener.v3.FilterChainMatch":                           set("destination_port prefix_ranges server_names transport_protocol application_protocols", ""),
	"envoy.config.listener.v3.Filter":                                     set("name typed_config config_discovery", ""),
	"envoy.extensions.filters.listener.http_inspector.v3.HttpInspector":   set("", ""),
	"envoy.extensions.filters.listener.original_dst.v3.OriginalDst":       set("", ""),
	"envoy.extensions.filters.listener.set_filter_state.v3.Config":        set("on_accept", ""),
	"envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector":     set("", "initial_read_buffer_size"),
	"envoy.extensions.transport_sockets.quic.v3.QuicDownstreamTransport":  set("downstream_tls_context enable_early_data", ""),
	"envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext":      set("common_tls_context require_client_certificate", "session_timeout disable_stateful_session_resumption disable_stateless_session_resumption"),
}

var knownNetwork = map[string]fields{
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager": set(
		"rds route_config scoped_routes http_filters access_log upgrade_configs early_header_mutation_extensions local_reply_config normalize_path strip_trailing_host_dot",
		// these change headers that nothing here asks for, or what is refused of broken requests
		"stat_prefix codec_type access_log_options common_http_protocol_options http_protocol_options http2_protocol_options delayed_close_timeout drain_timeout generate_request_id "+
			"max_request_headers_kb proxy_100_continue request_headers_timeout server_header_transformation skip_xff_append stream_error_on_invalid_http_message stream_idle_timeout use_remote_address forward_client_cert_details set_current_client_cert_details xff_num_trusted_hops"),
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.UpgradeConfig":                               set("upgrade_type enabled", ""),
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter":                                                        set("name typed_config config_discovery disabled", ""),
	"envoy.extensions.filters.network.http_connection_manager.v3.Rds":                                                               set("route_config_name", "config_source"),
	"envoy.extensions.filters.network.http_connection_manager.v3.ScopedRoutes":                                                      set("scope_key_builder scoped_rds", "name rds_config_source"),
	"envoy.extensions.filters.network.http_connection_manager.v3.ScopedRds":                                                         set("", "scoped_rds_config_source"),
	"envoy.extensions.filters.network.http_connection_manager.v3.ScopedRoutes.ScopeKeyBuilder":                                      set("fragments", ""),
	"envoy.extensions.filters.network.http_connection_manager.v3.ScopedRoutes.ScopeKeyBuilder.FragmentBuilder":                      set("header_value_extractor", ""),
	"envoy.extensions.filters.network.http_connection_manager.v3.ScopedRoutes.ScopeKeyBuilder.FragmentBuilder.HeaderValueExtractor": set("name index", ""),
	"envoy.extensions.filters.network.http_connection_manager.v3.LocalReplyConfig":                                                  set("mappers", ""),
	"envoy.extensions.filters.network.http_connection_manager.v3.ResponseMapper":                                                    set("filter status_code body_format_override headers_to_add", ""),
	"envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation":                                                 set("mutations", ""),
	"envoy.config.common.mutation_rules.v3.HeaderMutation":                                                                          set("remove_on_match remove append", ""),
	"envoy.config.common.mutation_rules.v3.HeaderMutation.RemoveOnMatch":                                                            set("key_matcher", ""),
	"envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit":                                                          set("max_connections", "stat_prefix"),
	"envoy.extensions.filters.network.ratelimit.v3.RateLimit":                                                                       set("rate_limit_service failure_mode_deny", "descriptors domain stat_prefix timeout"),
	"envoy.config.ratelimit.v3.RateLimitServiceConfig":                                                                              set("grpc_service", "transport_api_version"),
	"envoy.extensions.filters.network.rbac.v3.RBAC":                                                                                 set("rules matcher shadow_matcher shadow_rules_stat_prefix", "stat_prefix"),
	"envoy.extensions.filters.network.ext_authz.v3.ExtAuthz":                                                                        set("filter_enabled_metadata stat_prefix", "grpc_service failure_mode_allow transport_api_version"),
	"envoy.extensions.filters.network.set_filter_state.v3.Config":                                                                   set("on_new_connection on_downstream_tls_handshake", ""),
	"envoy.extensions.filters.network.sni_dynamic_forward_proxy.v3.FilterConfig":                                                    set("", "dns_cache_config port_value"),
	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy":                                                                        set("cluster access_log on_demand", "access_log_options idle_timeout max_early_data_bytes stat_prefix upstream_connect_mode"),
	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.OnDemand":                                                               set("", "odcds_config"),
	"envoy.config.rbac.v3.RBAC":                    set("action policies", ""),
	"envoy.config.rbac.v3.Action":                  set("action name", ""),
	"envoy.config.rbac.v3.Policy":                  set("permissions principals condition", "cel_config"),
	"envoy.config.rbac.v3.Permission":              set("any and_rules or_rules not_rule destination_port sourced_metadata", ""),
	"envoy.config.rbac.v3.Permission.Set":          set("rules", ""),
	"envoy.config.rbac.v3.SourcedMetadata":         set("metadata_matcher metadata_source", ""),
	"envoy.config.rbac.v3.Principal":               set("any and_ids or_ids not_id authenticated header", ""),
	"envoy.config.rbac.v3.Principal.Set":           set("ids", ""),
	"envoy.config.rbac.v3.Principal.Authenticated": set("principal_name", ""),
	"google.api.expr.v1alpha1.Expr":                set("call_expr const_expr ident_expr select_expr", "id"),
	"google.api.expr.v1alpha1.Expr.Call":           set("args function target", ""),
	"google.api.expr.v1alpha1.Expr.Ident":          set("name", ""),
	"google.api.expr.v1alpha1.Expr.Select":         set("field operand test_only", ""),
	"google.api.expr.v1alpha1.ParsedExpr":          set("expr", ""),
	"google.api.expr.v1alpha1.Constant":            set("string_value", ""),
}

var knownHTTP = map[string]fields{
	"envoy.extensions.common.matching.v3.ExtensionWithMatcher":                set("extension_config xds_matcher", ""),
	"envoy.extensions.common.matching.v3.ExtensionWithMatcherPerRoute":        set("xds_matcher", ""),
	"envoy.extensions.filters.common.matcher.action.v3.SkipFilter":            set("", ""),
	"envoy.extensions.filters.common.set_filter_state.v3.FilterStateValue":    set("object_key factory_key format_string shared_with_upstream skip_if_empty", ""),
	"envoy.extensions.filters.http.dynamic_forward_proxy.v3.FilterConfig":     set("allow_dynamic_host_from_filter_state", "dns_cache_config"),
	"envoy.extensions.filters.http.grpc_http1_reverse_bridge.v3.FilterConfig": set("content_type withhold_grpc_frames response_size_header", ""),
	"envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor":             set("grpc_service", "processing_mode message_timeout status_on_error forward_rules mutation_rules route_cache_action"),
	"envoy.extensions.filters.http.cors.v3.Cors":                              set("", ""),
	"envoy.extensions.filters.http.cors.v3.CorsPolicy":                        set("", "allow_origin_string_match allow_methods allow_headers expose_headers max_age allow_credentials forward_not_matching_preflights"),
	"envoy.extensions.filters.http.fault.v3.HTTPFault":                        set("abort", "delay"),
	"envoy.extensions.filters.http.fault.v3.FaultAbort":                       set("http_status grpc_status percentage", ""),
	"envoy.extensions.filters.http.grpc_web.v3.GrpcWeb":                       set("", ""),
	"envoy.extensions.filters.http.lua.v3.Lua":                                set("default_source_code clear_route_cache", ""),
	"envoy.extensions.filters.http.on_demand.v3.OnDemand":                     set("odcds", ""),
	"envoy.extensions.filters.http.on_demand.v3.OnDemandCds":                  set("", "source"),
	"envoy.extensions.filters.http.composite.v3.Composite":                    set("", ""),
	"envoy.extensions.filters.http.composite.v3.ExecuteFilterAction":          set("dynamic_config typed_config", ""),
	"envoy.extensions.filters.http.composite.v3.DynamicConfig":                set("name config_discovery", ""),
	"envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication":            set("", "rules providers bypass_cors_preflight"),
	"envoy.extensions.filters.http.ext_authz.v3.ExtAuthz": set("filter_enabled_metadata stat_prefix",
		"grpc_service http_service transport_api_version failure_mode_allow with_request_body clear_route_cache status_on_error allowed_headers decoder_header_mutation_rules"),
	"envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute":               set("check_settings", ""),
	"envoy.extensions.filters.http.ext_authz.v3.CheckSettings":                  set("context_extensions", ""),
	"envoy.extensions.filters.http.rbac.v3.RBAC":                                set("rules matcher shadow_matcher rules_stat_prefix shadow_rules_stat_prefix", ""),
	"envoy.extensions.filters.http.rbac.v3.RBACPerRoute":                        set("rbac", ""),
	"envoy.extensions.filters.http.router.v3.Router":                            set("", "suppress_envoy_headers"),
	"envoy.extensions.filters.http.set_filter_state.v3.Config":                  set("on_request_headers clear_route_cache", ""),
	"envoy.extensions.filters.http.set_metadata.v3.Config":                      set("metadata", ""),
	"envoy.extensions.filters.http.set_metadata.v3.Metadata":                    set("metadata_namespace value", ""),
	"envoy.extensions.filters.http.stateful_session.v3.StatefulSession":         set("", "session_state"),
	"envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute": set("", "stateful_session"),
	"envoy.extensions.filters.http.header_mutation.v3.HeaderMutation":           set("", "mutations"), // of headers that nothing here asks for
}

var knownRoutes = map[string]fields{
	"envoy.config.route.v3.ScopedRouteConfiguration":              set("name route_configuration_name key", ""),
	"envoy.config.route.v3.ScopedRouteConfiguration.Key":          set("fragments", ""),
	"envoy.config.route.v3.ScopedRouteConfiguration.Key.Fragment": set("string_key", ""),
	"envoy.config.route.v3.RouteConfiguration": set(
		"name virtual_hosts vhds vhost_header ignore_port_in_host_matching request_headers_to_add request_headers_to_remove typed_per_filter_config metadata",
		"response_headers_to_add response_headers_to_remove validate_clusters max_direct_response_body_size_bytes"),
	"envoy.config.route.v3.Vhds": set("", "config_source"),
	"envoy.config.route.v3.VirtualHost": set(
		"name domains routes metadata require_tls request_headers_to_add request_headers_to_remove typed_per_filter_config", "response_headers_to_add response_headers_to_remove"),
	"envoy.config.route.v3.Route": set(
		"name match route redirect direct_response metadata request_headers_to_add request_headers_to_remove typed_per_filter_config", "response_headers_to_add response_headers_to_remove decorator stat_prefix"),
	"envoy.config.route.v3.RouteMatch": set(
		"prefix path safe_regex path_separated_prefix connect_matcher case_sensitive runtime_fraction headers query_parameters grpc filter_state", ""),
	"envoy.config.route.v3.RouteMatch.ConnectMatcher":        set("", ""),
	"envoy.config.route.v3.RouteMatch.GrpcRouteMatchOptions": set("", ""),
	"envoy.config.route.v3.HeaderMatcher":                    set("name string_match range_match present_match invert_match treat_missing_header_as_empty", ""),
	"envoy.config.route.v3.QueryParameterMatcher":            set("name string_match present_match", ""),
	"envoy.config.route.v3.RouteAction": set(
		"cluster cluster_header cluster_not_found_response_code weighted_clusters host_rewrite_header host_rewrite_literal prefix_rewrite regex_rewrite request_mirror_policies upgrade_configs",
		"timeout idle_timeout max_stream_duration retry_policy hash_policy"),
	"envoy.config.route.v3.RouteAction.RequestMirrorPolicy":         set("cluster", "runtime_fraction trace_sampled disable_shadow_host_suffix_append host_rewrite_literal request_headers_mutations"),
	"envoy.config.route.v3.RouteAction.UpgradeConfig":               set("upgrade_type connect_config", ""),
	"envoy.config.route.v3.RouteAction.UpgradeConfig.ConnectConfig": set("", ""),
	"envoy.config.route.v3.WeightedCluster":                         set("clusters", ""),
	"envoy.config.route.v3.WeightedCluster.ClusterWeight":           set("name weight request_headers_to_add request_headers_to_remove host_rewrite_literal typed_per_filter_config", "response_headers_to_add response_headers_to_remove"),
	"envoy.config.route.v3.RedirectAction":                          set("host_redirect path_redirect prefix_rewrite response_code", "https_redirect scheme_redirect port_redirect strip_query"),
	"envoy.config.route.v3.DirectResponseAction":                    set("status body body_format", ""),
	"envoy.config.route.v3.FilterConfig":                            set("config disabled", ""),
}

var knownClusters = map[string]fields{
	"envoy.config.cluster.v3.Cluster": set(
		"name type cluster_type eds_cluster_config load_assignment original_dst_lb_config transport_socket transport_socket_matches typed_extension_protocol_options metadata",
		"circuit_breakers common_lb_config connect_timeout dns_failure_refresh_rate dns_lookup_family dns_refresh_rate lb_policy least_request_lb_config maglev_lb_config ring_hash_lb_config round_robin_lb_config "+
			"outlier_detection per_connection_buffer_limit_bytes respect_dns_ttl upstream_bind_config upstream_connection_options"),
	"envoy.config.cluster.v3.Cluster.TransportSocketMatch":                                            set("name match transport_socket", ""),
	"envoy.config.cluster.v3.Cluster.OriginalDstLbConfig":                                             set("upstream_port_override", ""),
	"envoy.config.cluster.v3.Cluster.CustomClusterType":                                               set("name typed_config", ""),
	"envoy.config.cluster.v3.Cluster.EdsClusterConfig":                                                set("service_name", "eds_config"),
	"envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig":                                set("", "allow_insecure_cluster_options dns_cache_config"),
	"envoy.config.endpoint.v3.ClusterLoadAssignment":                                                  set("cluster_name endpoints", ""),
	"envoy.config.endpoint.v3.LocalityLbEndpoints":                                                    set("lb_endpoints", "locality load_balancing_weight priority"),
	"envoy.config.endpoint.v3.LbEndpoint":                                                             set("endpoint metadata", "load_balancing_weight"),
	"envoy.config.endpoint.v3.Endpoint":                                                               set("address", ""),
	"envoy.extensions.transport_sockets.internal_upstream.v3.InternalUpstreamTransport":               set("transport_socket", ""),
	"envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer":                                      set("", ""),
	"envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext":                                    set("common_tls_context sni", "max_session_keys"),
	"envoy.extensions.transport_sockets.tls.cert_selectors.on_demand_secret.v3.Config":                set("certificate_mapper", "config_source"),
	"envoy.extensions.transport_sockets.tls.cert_mappers.sni.v3.SNI":                                  set("", "default_value"),
	"envoy.extensions.transport_sockets.tls.cert_mappers.filter_state_override.v3.Config":             set("default_value", ""),
	"envoy.extensions.transport_sockets.tls.v3.CommonTlsContext":                                      set("alpn_protocols tls_certificate_sds_secret_configs custom_tls_certificate_selector combined_validation_context validation_context", "tls_params tls_certificates"),
	"envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.CombinedCertificateValidationContext": set("default_validation_context", "validation_context_sds_secret_config"),
	"envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext":                          set("match_typed_subject_alt_names", "crl trusted_ca trust_chain_verification"),
	"envoy.extensions.transport_sockets.tls.v3.SubjectAltNameMatcher":                                 set("matcher san_type", ""),
	"envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig":                                       set("name", "sds_config"),
	"envoy.extensions.upstreams.http.v3.HttpProtocolOptions":                                          set("upstream_http_protocol_options", "auto_config common_http_protocol_options explicit_http_config use_downstream_protocol_config"),
	"envoy.config.core.v3.UpstreamHttpProtocolOptions":                                                set("auto_sni", "auto_san_validation"),
}

var knownMatchers = map[string]fields{
	"envoy.extensions.matching.common_inputs.network.v3.TransportProtocolInput":           set("", ""),
	"envoy.extensions.matching.common_inputs.network.v3.ApplicationProtocolInput":         set("", ""),
	"envoy.extensions.matching.common_inputs.network.v3.DestinationIPInput":               set("", ""),
	"envoy.extensions.matching.common_inputs.network.v3.DestinationPortInput":             set("", ""),
	"envoy.extensions.matching.common_inputs.network.v3.DirectSourceIPInput":              set("", ""),
	"envoy.extensions.matching.common_inputs.network.v3.SourceIPInput":                    set("", ""),
	"envoy.extensions.matching.common_inputs.network.v3.ServerNameInput":                  set("", ""),
	"envoy.type.matcher.v3.StringMatcher":                                                 set("exact prefix suffix contains safe_regex ignore_case", ""),
	"envoy.type.matcher.v3.RegexMatcher":                                                  set("regex", "google_re2"),
	"envoy.type.matcher.v3.RegexMatchAndSubstitute":                                       set("pattern substitution", ""),
	"envoy.type.matcher.v3.ValueMatcher":                                                  set("string_match list_match or_match", ""),
	"envoy.type.matcher.v3.ListMatcher":                                                   set("one_of", ""),
	"envoy.type.matcher.v3.OrMatcher":                                                     set("value_matchers", ""),
	"envoy.type.matcher.v3.MetadataMatcher":                                               set("filter path value invert", ""),
	"envoy.type.matcher.v3.MetadataMatcher.PathSegment":                                   set("key", ""),
	"envoy.type.matcher.v3.FilterStateMatcher":                                            set("key string_match address_match", ""),
	"envoy.type.matcher.v3.AddressMatcher":                                                set("ranges invert_match", ""),
	"envoy.type.matcher.v3.HttpRequestHeaderMatchInput":                                   set("header_name", ""),
	"envoy.type.matcher.v3.HttpResponseHeaderMatchInput":                                  set("header_name", ""),
	"envoy.extensions.matching.common_inputs.network.v3.FilterStateInput":                 set("key", ""),
	"envoy.extensions.matching.common_inputs.network.v3.DynamicMetadataInput":             set("filter path", ""),
	"envoy.extensions.matching.common_inputs.network.v3.DynamicMetadataInput.PathSegment": set("key", ""),
	"envoy.extensions.matching.input_matchers.metadata.v3.Metadata":                       set("value invert", ""),
	"envoy.extensions.matching.input_matchers.ip.v3.Ip":                                   set("cidr_ranges", "stat_prefix"),
	"envoy.extensions.matching.common_inputs.ssl.v3.UriSanInput":                          set("", ""),
	"envoy.type.v3.Int32Range":                                                            set("start end", ""),
	"envoy.type.v3.Int64Range":                                                            set("start end", ""),
	"envoy.type.v3.FractionalPercent":                                                     set("numerator denominator", ""),
	"xds.core.v3.CidrRange":                                                               set("address_prefix prefix_len", ""),
	"xds.core.v3.TypedExtensionConfig":                                                    set("name typed_config", ""),
	"xds.type.matcher.v3.Matcher":                                                         set("matcher_list matcher_tree on_no_match", ""),
	"xds.type.matcher.v3.Matcher.MatcherTree":                                             set("input exact_match_map prefix_match_map", ""),
	"xds.type.matcher.v3.Matcher.MatcherTree.MatchMap":                                    set("map", ""),
	"xds.type.matcher.v3.HttpAttributesCelMatchInput":                                     set("", ""),
	"xds.type.matcher.v3.CelMatcher":                                                      set("expr_match", "description"),
	"xds.type.v3.CelExpression":                                                           set("parsed_expr", ""),
	"xds.type.matcher.v3.Matcher.MatcherList":                                             set("matchers", ""),
	"xds.type.matcher.v3.Matcher.MatcherList.FieldMatcher":                                set("on_match predicate", ""),
	"xds.type.matcher.v3.Matcher.MatcherList.Predicate":                                   set("single_predicate not_matcher or_matcher and_matcher", ""),
	"xds.type.matcher.v3.Matcher.MatcherList.Predicate.PredicateList":                     set("predicate", ""),
	"xds.type.matcher.v3.Matcher.MatcherList.Predicate.SinglePredicate":                   set("input value_match custom_match", ""),
	"xds.type.matcher.v3.Matcher.OnMatch":                                                 set("action matcher", ""),
	"xds.type.matcher.v3.RegexMatcher":                                                    set("regex", "google_re2"),
	"xds.type.matcher.v3.StringMatcher":                                                   set("exact prefix suffix contains safe_regex", ""),
}

var knownLogs = map[string]fields{
	"envoy.config.accesslog.v3.AccessLog":                               set("name filter typed_config", ""),
	"envoy.config.accesslog.v3.AccessLogFilter":                         set("or_filter and_filter status_code_filter header_filter response_flag_filter metadata_filter extension_filter log_type_filter", ""),
	"envoy.config.accesslog.v3.LogTypeFilter":                           set("types exclude", ""),
	"envoy.config.accesslog.v3.OrFilter":                                set("filters", ""),
	"envoy.config.accesslog.v3.AndFilter":                               set("filters", ""),
	"envoy.config.accesslog.v3.StatusCodeFilter":                        set("comparison", ""),
	"envoy.config.accesslog.v3.ComparisonFilter":                        set("op value", ""),
	"envoy.config.accesslog.v3.HeaderFilter":                            set("header", ""),
	"envoy.config.accesslog.v3.ResponseFlagFilter":                      set("flags", ""),
	"envoy.config.accesslog.v3.MetadataFilter":                          set("matcher match_if_key_not_found", ""),
	"envoy.config.accesslog.v3.ExtensionFilter":                         set("name typed_config", ""),
	"envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter":   set("expression", "cel_config"),
	"envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig":   set("common_config", ""),
	"envoy.extensions.access_loggers.grpc.v3.TcpGrpcAccessLogConfig":    set("common_config", ""),
	"envoy.extensions.access_loggers.grpc.v3.CommonGrpcAccessLogConfig": set("log_name custom_tags", "buffer_flush_interval grpc_service transport_api_version"),
	"envoy.type.tracing.v3.CustomTag":                                   set("tag value", ""),
}

var knownCore = map[string]fields{
	"envoy.config.core.v3.Address":                  set("socket_address envoy_internal_address", ""),
	"envoy.config.core.v3.SocketAddress":            set("address port_value", ""),
	"envoy.config.core.v3.EnvoyInternalAddress":     set("server_listener_name", ""),
	"envoy.config.core.v3.CidrRange":                set("address_prefix prefix_len", ""),
	"envoy.config.core.v3.TransportSocket":          set("name typed_config", ""),
	"envoy.config.core.v3.ExtensionConfigSource":    set("type_urls", "config_source"),
	"envoy.config.core.v3.TypedExtensionConfig":     set("name typed_config", ""),
	"envoy.config.core.v3.Metadata":                 set("filter_metadata", ""),
	"envoy.config.core.v3.DataSource":               set("inline_bytes inline_string", ""),
	"envoy.config.core.v3.SubstitutionFormatString": set("text_format_source json_format content_type omit_empty_values", "formatters"),
	"envoy.config.core.v3.HeaderValue":              set("key value", ""),
	"envoy.config.core.v3.HeaderValueOption":        set("header append_action keep_empty_value", ""),
	"envoy.config.core.v3.GrpcService":              set("envoy_grpc initial_metadata", ""),
	"envoy.config.core.v3.GrpcService.EnvoyGrpc":    set("cluster_name", ""),
	"envoy.config.core.v3.RuntimeUInt32":            set("default_value", "runtime_key"),
	"envoy.config.core.v3.RuntimeFractionalPercent": set("default_value", "runtime_key"),
}
