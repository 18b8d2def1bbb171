package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/sallyport/sallyport/sidecar/node/cni"
)

// ready asks whether the agent serves all pods; another agent asks.
const ready = "ready"

// patience is for those who say nothing of it, and most for those who do.
const (
	patience     = 10 * time.Second
	mostPatience = time.Minute
)

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
	var r cni.Request
	if json.NewDecoder(conn).Decode(&r) != nil {
		return
	}
	if r.Patience <= 0 || r.Patience > mostPatience {
		r.Patience = patience
	}
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	var a cni.Answer
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

func (p *Pods) do(ctx context.Context, r cni.Request) error {
	switch r.Do {
	case cni.Add:
		return p.Add(ctx, r.Local)
	case cni.Remove:
		return p.removeAndEmpty(ctx, r.Local)
	case cni.Check:
		return p.Check(r.Local)
	case ready:
		if why := p.behind(ctx); why != "" {
			return errors.New(why)
		}
		return nil
	default:
		return fmt.Errorf("%q is none of %s", r.Do, strings.Join(cni.Questions, ", "))
	}
}
