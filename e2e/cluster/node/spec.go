package node

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
)

// Spec is what the first process of a node does.
type Spec struct {
	Hostname string
	Address  netip.Prefix // of its interface eth0, towards the host
	Virtual  netip.Prefix // addresses that rules of the node translate: its programs need a route to send there at all
	Logs     string       // directory, one file a service
	Services []Service
}

// Service is a program that runs as long as the node does, and is started again when it ends.
type Service struct {
	Name string
	Argv []string
	Env  []string // beside the inherited
	// After is an address that must accept connections first: "tcp:127.0.0.1:2379", "unix:/run/x.sock". May be empty.
	After string
}

// File descriptors that the first process inherits: the lock that says that the node lives, and a pipe whose end of
// file says that its network is there.
const (
	LockFD = 3
	GateFD = 4
)

const (
	specName = "node.json"
	lockName = "node.lock"
	pidName  = "node.pid"
)

// ReadSpec reads the spec of the node in dir.
func ReadSpec(dir string) (s Spec, err error) {
	content, err := os.ReadFile(filepath.Join(dir, specName))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(content, &s)
}

func (s Spec) write(dir string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, specName), content, 0o644)
}
