package registry_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestNetworkOfTwo: of networks that both name a cluster the first by name counts, each time.
func TestNetworkOfTwo(t *testing.T) {
	cfg := mesh.Default()
	cfg.Topology.Cluster = "west"
	cfg.Topology.Networks = map[string]mesh.Network{"a": {Clusters: []string{"west"}}, "b": {Clusters: []string{"west"}}}
	for range 50 {
		key := config.Key{Kind: config.KindNamespace, Name: cfg.RootNamespace}
		s, _ := registry.New(&cfg).Apply([]config.Change{{Key: key, Object: &config.Object{Key: key, Spec: &corev1.Namespace{}}}})
		if got := s.Topology().Network(nil); got != "a" {
			t.Fatalf("it is in %q", got)
		}
	}
}
