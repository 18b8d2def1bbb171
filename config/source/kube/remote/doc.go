// Package remote reads other clusters, beside the own one, as Istio's multicluster Secrets name them: those of the control plane's namespace with
// the label istio/multiCluster: "true", in which each key is a cluster's name, and its value a kubeconfig.
//
// In: the source of the own cluster, and a client of its API server. Out: the changes of all clusters, those of others with the name of their
// cluster in their keys. The own cluster's come as if there were no others: nothing waits for one. A cluster that is away keeps what is
// known of it, and is tried again; one whose Secret goes takes its objects with it.
package remote
