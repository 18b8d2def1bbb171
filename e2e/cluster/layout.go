package cluster

import (
	"net/netip"
	"path/filepath"
)

// Dir holds all that the cluster writes. Its place is fixed, so that every process finds the cluster and what one that
// died left; it is short, for paths of sockets are.
const Dir = "/var/lib/sallyport-e2e"

// Networks and addresses. Nothing on the host may meet Network.
var (
	Network     = netip.MustParsePrefix("10.78.0.0/16")
	PodNetwork  = netip.MustParsePrefix("10.78.0.0/24")
	Services    = netip.MustParsePrefix("10.78.128.0/18")
	NodeAddr    = netip.MustParseAddr("10.78.255.2")
	HostAddr    = netip.MustParseAddr("10.78.255.1") // this host, as pods see it
	DNSAddr     = netip.MustParseAddr("10.78.128.10")
	apiAddr     = netip.MustParseAddr("10.78.128.1")
	nodeAddress = netip.PrefixFrom(NodeAddr, 30)
)

// NodeName is the node's name in Kubernetes, and its host name.
const NodeName = "node"

const (
	apiURL = "https://10.78.255.2:6443"
	// containerdState is inside the node: a tmpfs.
	containerdState = "/run/containerd"
)

func in(elements ...string) string { return filepath.Join(append([]string{Dir}, elements...)...) }

func pkiFile(name string) string { return in("pki", name) }

func logsDir() string { return in("logs") }

func adminKubeconfig() string { return in("kubeconfig") }

// containerdSocket is on a file system that the host sees too.
func containerdSocket() string { return in("containerd.sock") }
