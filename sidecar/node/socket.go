package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
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

type answer struct {
	Error string `json:"error,omitempty"`
}

// patience is for those who say nothing of it, and most for those who do.
const (
	patience     = 10 * time.Second
	mostPatience = time.Minute
)

// Ask asks the agent whose run directory that is.
func Ask(ctx context.Context, runDir string, r Request) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(runDir, Socket))
	if err != nil {
		return fmt.Errorf("the node's agent does not answer: %w", err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var a answer
	if err := errors.Join(json.NewEncoder(conn).Encode(r), json.NewDecoder(conn).Decode(&a)); err != nil {
		return fmt.Errorf("the node's agent: %w", err)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return nil
}

// Serve answers on the socket until ctx ends.
func (p *Pods) Serve(ctx context.Context, runDir string, log *slog.Logger) error {
	path := filepath.Join(runDir, Socket)
	_ = os.Remove(path) // of an agent that ended without a word; the run directory is ours (sidecar/agent)
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		go p.serve(ctx, conn, log)
	}
}

func (p *Pods) serve(ctx context.Context, conn net.Conn, log *slog.Logger) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	var r Request
	if json.NewDecoder(conn).Decode(&r) != nil {
		return
	}
	if r.Patience <= 0 || r.Patience > mostPatience {
		r.Patience = patience
	}
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	var a answer
	if err := p.do(ctx, r); err != nil {
		a.Error = err.Error()
		log.Warn("a pod", "do", r.Do, "pod", r.Key(), "err", err)
	}
	_ = json.NewEncoder(conn).Encode(a)
}

func (p *Pods) do(ctx context.Context, r Request) error {
	switch r.Do {
	case Add:
		return p.Add(ctx, r.Local)
	case Remove:
		return p.Remove(r.Local)
	case Check:
		return p.Check(r.Local)
	default:
		return fmt.Errorf("%q is none of %s", r.Do, strings.Join(Questions, ", "))
	}
}
