package bootstrap

import (
	"maps"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/netcap"
	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/wire"
)

// Node is what the proxy says about itself: Envoy's node, with Istio's metadata keys.
type Node struct {
	ID       string         `json:"id"`
	Cluster  string         `json:"cluster"`
	Metadata map[string]any `json:"metadata"`
}

// NewNode derives the node of a proxy. Its metadata holds only what JSON and google.protobuf.Struct can hold.
func NewNode(o Options) Node {
	domain := or(o.DNSDomain, o.Namespace+".svc.cluster.local")
	ips := make([]string, len(o.IPs))
	for i, ip := range o.IPs {
		ips[i] = ip.String()
	}
	first := ""
	if len(ips) > 0 {
		first = ips[0]
	}
	workload := or(o.Workload, o.Name)
	metadata := map[string]any{
		"NAME":               o.Name,
		"NAMESPACE":          o.Namespace,
		"SERVICE_ACCOUNT":    o.ServiceAccount,
		"LABELS":             anyMap(o.Labels),
		"INSTANCE_IPS":       strings.Join(ips, ","),
		"CLUSTER_ID":         or(o.ClusterID, "Kubernetes"),
		"MESH_ID":            or(o.MeshID, or(o.TrustDomain, "cluster.local")),
		"TRUST_DOMAIN":       or(o.TrustDomain, "cluster.local"),
		"ISTIO_VERSION":      Version,
		"WORKLOAD_NAME":      workload,
		"DNS_CAPTURE":        strconv.FormatBool(o.DNSCapture),
		"PROXY_CONFIG":       map[string]any{},
		"ENVOY_STATUS_PORT":  15021,
		"SALLYPORT_RESOLVER": o.Resolver.String(),
		wire.DecidedMetadata: "true",
	}
	if o.Role == Ztunnel {
		metadata["INTERCEPTION_MODE"] = "NONE"
		metadata[ambient.OwnMetadata], metadata[ambient.KubeletMetadata] = "true", "true"
		if o.IPv6 {
			metadata[ambient.IPv6Metadata] = "true"
		}
	} else if o.Role == Sidecar {
		metadata["INTERCEPTION_MODE"] = "REDIRECT"
		metadata[ondemand.FetchMetadata] = ondemand.FetchAsMesh
		metadata[ondemand.NamedMetadata] = "true"
		metadata[wire.NamesWaitMetadata] = "true"
		metadata[wire.ReconnectsMetadata] = "true"
	} else {
		metadata[ondemand.Metadata] = "true"
		if o.Role == Router {
			metadata[ondemand.CertificatesMetadata] = "true"
			metadata[ondemand.FetchMetadata], metadata[ondemand.ExitMetadata] = ondemand.FetchAsMesh, "true"
		}
	}
	if o.Questions != "" {
		metadata[wire.EndsMetadata] = wire.EndsTunnels
		metadata[wire.EndsConnectionsMetadata] = o.EndsConnections
	}
	if o.Sessions > 0 {
		metadata[netcap.SessionsMetadata] = o.Sessions
	}
	if o.ProxyConfig != nil {
		metadata["PROXY_CONFIG"] = o.ProxyConfig
	}
	maps.Copy(metadata, o.Metadata)
	return Node{
		ID:       strings.Join([]string{o.Role, first, o.Name + "." + o.Namespace, domain}, "~"),
		Cluster:  or(o.Labels["app"], workload) + "." + o.Namespace,
		Metadata: metadata,
	}
}

func anyMap(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = v
	}
	return out
}
