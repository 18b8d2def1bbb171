package kubelet

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// NetworkName is the file beside pods' network namespaces that is the node's own. It goes with the node's next start.
const NetworkName = "sallyport-node"

// Leave puts the network namespace of the calling thread, the node's own, beside that of a pod, so that the node's agent can enter it: the agent has a network of
// its own, and may not look at processes of the node. It is there already in nearly all calls.
func Leave(podNetwork string) error {
	pod, err := openNetwork(podNetwork)
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

// errNoNetwork is of a file that is no network namespace: nothing was mounted there yet, or it was taken away.
var errNoNetwork = errors.New("it is no network namespace")

// openNetwork opens a network namespace by its path.
func openNetwork(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil || fs.Type != unix.NSFS_MAGIC {
		return nil, errors.Join(errNoNetwork, err, f.Close())
	}
	return f, nil
}
