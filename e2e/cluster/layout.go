package cluster

import (
	"net/netip"
	"path/filepath"

	"github.com/sallyport/sallyport/e2e/cluster/node"
)

// Dir holds all that the cluster writes. Its place is fixed, so that every process finds the cluster and what one that
// died left; it is short, for paths of sockets are.
var Dir = "/var/lib/" + node.Name

// Networks and addresses. Nothing on the host may meet Network.
var (
	Network     = netip.PrefixFrom(address(0, 0), 16)
	PodNetwork  = netip.PrefixFrom(address(0, 0), 24)
	Services    = netip.PrefixFrom(address(128, 0), 18)
	NodeAddr    = address(255, 2)
	HostAddr    = address(255, 1) // this host, as pods see it
	DNSAddr     = address(128, 10)
	apiAddr     = address(128, 1)
	nodeAddress = netip.PrefixFrom(NodeAddr, 30)
)

// firstNetwork is the second byte of the first cluster's network; each further one has the next.
const firstNetwork = 78

func address(third, fourth byte) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(firstNetwork + node.Number), third, fourth})
}

// Where the container runtime finds CNI plugins, and what it is to do with them. The plugins are links to the system's: what a test adds is the
// cluster's own.
var (
	CNIBinDir  = in("cni-bin")
	CNIConfDir = in("cni")
)

// NodeName is the node's name in Kubernetes, and its host name.
const NodeName = "node"

var apiURL = "https://" + netip.AddrPortFrom(NodeAddr, 6443).String()

// containerdState is inside the node: a tmpfs.
const containerdState = "/run/containerd"

func in(elements ...string) string { return filepath.Join(append([]string{Dir}, elements...)...) }

func pkiFile(name string) string { return in("pki", name) }

func logsDir() string { return in("logs") }

func adminKubeconfig() string { return in("kubeconfig") }

// containerdSocket is on a file system that the host sees too.
func containerdSocket() string { return in("containerd.sock") }
