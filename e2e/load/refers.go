package load

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// The types that proxies ask for: five are Envoy's; the names are for the agent's DNS, and clusters on demand for a
// gateway's agent, which says by its metadata that it takes them, as a sidecar's says that it gives its Envoy what is used, for which it takes the digest.
const (
	typePrefix      = "type.googleapis.com/"
	clusterType     = typePrefix + "envoy.config.cluster.v3.Cluster"
	endpointsType   = typePrefix + "envoy.config.endpoint.v3.ClusterLoadAssignment"
	listenerType    = typePrefix + "envoy.config.listener.v3.Listener"
	routeType       = typePrefix + "envoy.config.route.v3.RouteConfiguration"
	virtualHostType = typePrefix + "envoy.config.route.v3.VirtualHost"
	nameType        = typePrefix + "sallyport.dnsproxy.v1.Name"
	onDemandType    = typePrefix + "sallyport.xds.v1.OnDemandCluster"
	onDemandKey     = "SALLYPORT_ON_DEMAND"
	fetchKey        = "SALLYPORT_FETCH"
	byNameKey       = "SALLYPORT_FETCH_BY_NAME"
	namesWaitKey    = "SALLYPORT_NAMES_WAIT"
	certificatesKey = "SALLYPORT_CERTIFICATES_ON_DEMAND"
	serverNameType  = typePrefix + "sallyport.xds.v1.ServerName"
	extensionType   = typePrefix + "envoy.config.core.v3.TypedExtensionConfig"
	digestType      = typePrefix + "sallyport.xds.v1.RowDigest"
	connManagerType = typePrefix + "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
)

// references remembers, for all clients at once, what clusters and listeners refer to: the resources that an Envoy
// asks for by name. Equal versions are looked into once.
type references struct {
	mu   sync.Mutex
	seen map[string][]string // by what is asked for, and version
}

// of gives the endpoints that a cluster needs, or the routes, or extensions, that a listener needs.
func (r *references) of(wanted string, res resource) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := wanted + res.version
	names, ok := r.seen[key]
	if ok {
		return names
	}
	switch wanted {
	case endpointsType:
		names = endpointsOf(res)
	case routeType:
		names = routesOf(res.body)
	case extensionType:
		names = extensionsOf(res.body)
	}
	if r.seen == nil {
		r.seen = map[string][]string{}
	}
	r.seen[key] = names
	return names
}

// endpointsOf reads Cluster.eds_cluster_config (field 3), whose service_name (2) defaults to the cluster's name.
func endpointsOf(cluster resource) []string {
	eds := all(cluster.body, 3)
	if len(eds) == 0 {
		return nil
	}
	return []string{cmp.Or(string(first(eds[0], 2)), cluster.name)}
}

// routesOf reads the names of the route configurations that a listener's connection managers fetch: rds.route_config_name (3, 2).
func routesOf(listener []byte) (names []string) {
	for _, manager := range connManagers(listener) {
		if name := string(first(first(manager, 3), 2)); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// extensionsOf reads the names (1) of their HTTP filters (5) that are discovered (config_discovery, 5).
func extensionsOf(listener []byte) (names []string) {
	for _, manager := range connManagers(listener) {
		for _, filter := range all(manager, 5) {
			if len(all(filter, 5)) > 0 {
				names = append(names, string(first(filter, 1)))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// connManagers are those of a listener: in filter chains (fields 3 and 25), their filters (3), the typed_config (4) of these.
func connManagers(listener []byte) (out [][]byte) {
	for _, chain := range append(all(listener, 3), all(listener, 25)...) {
		for _, filter := range all(chain, 3) {
			if config := first(filter, 4); strings.HasSuffix(string(first(config, 1)), connManagerType) {
				out = append(out, first(config, 2))
			}
		}
	}
	return out
}
