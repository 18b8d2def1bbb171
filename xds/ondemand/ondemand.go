// Package ondemand names how clusters reach a gateway's agent that its Envoy fetches when they are first used. The
// control plane and the data plane's agent both link it.
package ondemand

const (
	// ClusterType is the delta xDS type, one resource a cluster (wildcard subscription). A resource's body is an
	// envoy.config.cluster.v3.Cluster.
	ClusterType = "type.googleapis.com/sallyport.xds.v1.OnDemandCluster"
	// Metadata is the key of the node metadata by which an agent says that it can serve them.
	Metadata = "SALLYPORT_ON_DEMAND"
)
