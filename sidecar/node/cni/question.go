package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// Socket is the name, in the agent's run directory, of the socket by which the CNI plugin tells of pods. Who may write to it may have
// any process's network taken in as a pod's: it is root's alone.
const Socket = "pods.sock"

// What may be asked for.
const (
	Add    = "add"
	Remove = "remove"
	Check  = "check"
)

// Questions are they.
var Questions = []string{Add, Remove, Check}

// Request is one question; one connection carries one.
type Request struct {
	Do string `json:"do"`
	Local
	Patience time.Duration `json:"patience,omitempty"` // how long Add may take
}

// Answer is the agent's.
type Answer struct {
	Error string `json:"error,omitempty"`
}

// ErrAway says that no agent answers, or that it ended before it did.
var ErrAway = errors.New("the node's agent does not answer")

// Ask asks the agent whose run directory that is.
func Ask(ctx context.Context, runDir string, r Request) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(runDir, Socket))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var a Answer
	if err := errors.Join(json.NewEncoder(conn).Encode(r), json.NewDecoder(conn).Decode(&a)); err != nil {
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return nil
}

// Local is what the node knows of a pod: where its network is.
type Local struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	Network   string `json:"network"` // path of its network namespace
}

// Key is NAMESPACE/NAME.
func (l Local) Key() string { return l.Namespace + "/" + l.Name }

// Valid says whether it can be a pod, whose name becomes those of files.
func (l Local) Valid() error {
	if l.Namespace == "" || l.Name == "" || strings.ContainsAny(l.Namespace+l.Name, "/\\") {
		return fmt.Errorf("pod %q: must be NAMESPACE/NAME", l.Key())
	}
	return nil
}
