package node

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

	ready = "ready" // whether the agent serves all pods; another agent asks
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
	var a answer
	if err := errors.Join(json.NewEncoder(conn).Encode(r), json.NewDecoder(conn).Decode(&a)); err != nil {
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return nil
}

// Serve answers on the socket, while this agent holds the node, until ctx ends.
func (p *Pods) Serve(ctx context.Context) error {
	return p.watchHolder(ctx, func(l net.Listener) {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			go p.serve(ctx, conn)
		}
	})
}

func (p *Pods) serve(ctx context.Context, conn net.Conn) {
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
	err := p.do(ctx, r)
	if errors.Is(err, errElsewhere) {
		return // without an answer: who asked asks whoever holds the node now
	}
	if err != nil {
		a.Error = err.Error()
		if r.Do != ready {
			p.cfg.Log.Warn("a pod", "do", r.Do, "pod", r.Key(), "err", err)
		}
	}
	_ = json.NewEncoder(conn).Encode(a)
}

func (p *Pods) do(ctx context.Context, r Request) error {
	switch r.Do {
	case Add:
		return p.Add(ctx, r.Local)
	case Remove:
		return p.removeAndEmpty(ctx, r.Local)
	case Check:
		return p.Check(r.Local)
	case ready:
		if why := p.behind(ctx); why != "" {
			return errors.New(why)
		}
		return nil
	default:
		return fmt.Errorf("%q is none of %s", r.Do, strings.Join(Questions, ", "))
	}
}
