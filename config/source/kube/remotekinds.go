package kube

import (
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config"
)

// NewRemote makes a source of what counts of another cluster: where endpoints are. Its objects' keys say which cluster that is.
func NewRemote(cluster string, config *rest.Config, o Options) *Source {
	all := remoteKinds()
	return &Source{cluster: cluster, config: config, options: o.withDefaults(), kinds: all, store: newStore(all), synced: make(chan struct{}), retries: retries}
}

// remoteKinds are those of kinds that are read of other clusters, none of which a CustomResourceDefinition makes.
func remoteKinds() (out []kind) {
	for _, k := range kinds() {
		switch k.Kind {
		case config.KindService, config.KindEndpointSlice, config.KindPod, config.KindNamespace:
			out = append(out, k)
		}
	}
	return out
}

// ofCluster gives changes the name of the cluster that they are of.
func ofCluster(cluster string, changes []config.Change) []config.Change {
	if cluster == "" {
		return changes
	}
	for i, c := range changes {
		changes[i].Key = c.Key.In(cluster)
		if c.Object != nil {
			o := *c.Object
			o.Cluster, o.Origin = cluster, "cluster "+cluster
			changes[i].Object = &o
		}
	}
	return changes
}
