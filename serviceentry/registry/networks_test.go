package registry_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

func nodeChange(name, address string, networks ...string) config.Change {
	key := config.Key{Kind: config.KindNode, Name: name}
	return config.Change{Key: key, Object: &config.Object{
		Key: key, Hash: uint64(len(name+address+fmt.Sprint(networks))) + uint64(address[len(address)-1])<<32,
		Spec: &corev1.Node{Spec: corev1.NodeSpec{PodCIDRs: networks}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeExternalIP, Address: "203.0.113.5"}, {Type: corev1.NodeHostName, Address: "x"},
		}}},
	}}
}

// TestNetworks: the cluster's own networks are what its Nodes say, in the fewest words, or what the settings do.
func TestNetworks(t *testing.T) {
	cfg := mesh.Default()
	r := registry.New(&cfg)
	want := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, p := range r.Snapshot().Networks() {
			got = append(got, p.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	want("at first")
	_, changed := r.Apply([]config.Change{nodeChange("a", "192.0.2.4", "10.4.0.0/24", "fd00:4::/64"), nodeChange("b", "192.0.2.6", "10.4.2.0/24")})
	want("two nodes", "10.4.0.0/24", "10.4.2.0/24", "192.0.2.4/32", "192.0.2.6/32", "fd00:4::/64")
	if !changed.Nets {
		t.Error("no change was told")
	}
	r.Apply([]config.Change{nodeChange("c", "10.4.3.9", "10.4.3.0/24"), nodeChange("d", "192.0.2.5", "10.4.1.0/24")})
	want("four that join", "10.4.0.0/22", "192.0.2.4/31", "192.0.2.6/32", "fd00:4::/64")
	if _, changed = r.Apply([]config.Change{nodeChange("d", "192.0.2.5", "10.4.1.0/24")}); !changed.Empty() {
		t.Errorf("the same again: %+v", changed)
	}
	r.Apply([]config.Change{{Key: config.Key{Kind: config.KindNode, Name: "d"}}})
	want("one goes", "10.4.0.0/24", "10.4.2.0/23", "192.0.2.4/32", "192.0.2.6/32", "fd00:4::/64")
	for addr, in := range map[string]bool{"10.4.3.3": true, "10.4.1.1": false, "fd00:4::7": true, "::ffff:10.4.0.1": true, "203.0.113.5": false} {
		if r.Snapshot().InCluster(netip.MustParseAddr(addr)) != in {
			t.Errorf("%s: in the cluster is not %v", addr, in)
		}
	}
	own := cfg
	own.ClusterNetworks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.9.0.0/16")}
	r.SetMesh(&own)
	want("the settings say it", "10.0.0.0/8")
	if all := registry.New(&own).Snapshot().Networks(); len(all) != 1 {
		t.Errorf("settings from the beginning, and no node: %v", all)
	}
	many := make([]config.Change, 0, 1000)
	for i := range 1000 {
		many = append(many, nodeChange(fmt.Sprint("n", i), fmt.Sprintf("172.16.%d.%d", i/100, 2*(i%100)), fmt.Sprintf("10.%d.%d.0/24", i/250, i%250)))
	}
	r.SetMesh(&cfg)
	r.Apply(many)
	if n := len(r.Snapshot().Networks()); n > 256 {
		t.Errorf("%d networks", n)
	}
	if !r.Snapshot().InCluster(netip.MustParseAddr("10.3.200.1")) {
		t.Error("the nodes' own addresses took the place of the pods' networks")
	}
}
