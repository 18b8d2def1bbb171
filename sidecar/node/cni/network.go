package cni

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
)

// NetworkName is the file beside pods' network namespaces that is the node's own. It goes with the node's next start.
const NetworkName = "sallyport-node"

// Leave puts the network namespace of the calling thread, the node's own, beside that of a pod, so that the node's agent can enter it: the agent has a network of
// its own, and may not look at processes of the node. It is there already in nearly all calls.
func Leave(podNetwork string) error {
	pod, err := OpenNetwork(podNetwork)
	if err != nil {
		return err
	}
	_ = pod.Close()
	path := filepath.Join(filepath.Dir(podNetwork), NetworkName)
	own, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	if there, err := os.Stat(path); err == nil && os.SameFile(there, own) {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o400)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
}

// ErrNoNetwork is of a file that is no network namespace: nothing was mounted there yet, or it was taken away.
var ErrNoNetwork = errors.New("it is no network namespace")

// OpenNetwork opens a network namespace by its path.
func OpenNetwork(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil || fs.Type != unix.NSFS_MAGIC {
		return nil, errors.Join(ErrNoNetwork, err, f.Close())
	}
	return f, nil
}

// MigrateRequests has the kernel give connections that a listener was about to take, when it is closed, to another one on the same port
// (tcp_migrate_req, Linux 5.14): without it, they are reset when an agent that was relieved stops listening. In a pod of Kubernetes the
// setting is not writable, so the CNI plugin, which runs on the node, calls this too.
func MigrateRequests(network string) error {
	return ns.WithNetNSPath(network, func(ns.NetNS) error { return os.WriteFile("/proc/sys/net/ipv4/tcp_migrate_req", []byte("1"), 0o644) })
}
