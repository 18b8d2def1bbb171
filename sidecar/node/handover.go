package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/sallyport/sallyport/sidecar/node/cni"
	"github.com/sallyport/sallyport/xds/ambient"
)

// While a node's agent is replaced there are two, and both serve all pods: their listeners share ports. One of them holds the node: it answers
// the CNI plugin, keeps that installed, takes pods in, and removes rules. The new one takes the node over when it serves all that the other
// one does, and not before; who was relieved does no more than let go what is gone, until it is told to end, or whoever relieved it dies.

// How long things take between two agents.
const (
	lookEvery = 200 * time.Millisecond // at who holds the node
	askOther  = time.Second            // whether the other one can serve
	catchUp   = 30 * time.Second       // for pods that cannot be taken in: they do not keep the node from being taken over any longer
)

// holder is what an agent knows of who holds the node. Its owner's lock guards it.
type holder struct {
	socket   *net.UnixListener // what it listens on, held or not
	own      os.FileInfo       // of its path when it was put there
	holds    bool
	has      bool      // it has held the node
	may      bool      // take pods in
	since    time.Time // may
	complete bool      // it has served all pods at a time
	leaves   bool
}

// socketPath is where the node's holder answers.
func (p *Pods) socketPath() string { return filepath.Join(p.cfg.RunDir, cni.Socket) }

// watchHolder takes the node when it may, and notices when another agent does, until ctx ends.
func (p *Pods) watchHolder(ctx context.Context, accept func(net.Listener)) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	said := ""
	for {
		err := p.look(ctx, accept)
		if err != nil && !p.heldOnce() {
			return err
		}
		if err == nil {
			said = ""
		} else if said != err.Error() {
			said = err.Error()
			p.cfg.Log.Error("this agent cannot take the node now, and tries again", "err", err)
		}
		select {
		case <-ctx.Done():
			return p.letGo()
		case <-tick.C:
		}
	}
}

func (p *Pods) heldOnce() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.has
}

// look sees who holds the node, and takes it over where nobody does, or when this agent, which came later, can serve all pods.
func (p *Pods) look(ctx context.Context, accept func(net.Listener)) error {
	mine := p.mine()
	away := !mine && !answers(p.socketPath())
	settled := mine || away || p.cfg.Settled()
	p.mu.Lock()
	h := &p.holder
	if lost := h.holds && !mine; lost {
		p.cfg.Log.Info("another agent serves this node's pods from now on")
		h.holds = false
		p.asks()
	}
	if !h.may && settled {
		h.may, h.since = true, time.Now()
		p.asks()
	}
	leaves, has := h.leaves, h.has
	p.mu.Unlock()
	if mine || leaves || !away && (has || p.behind(ctx) != "") {
		return nil
	}
	return p.take(accept)
}

// mine says whether the socket is the one that this agent put there.
func (p *Pods) mine() bool {
	p.mu.Lock()
	own, leaves := p.own, p.leaves
	p.mu.Unlock()
	there, err := os.Lstat(p.socketPath())
	return own != nil && !leaves && err == nil && os.SameFile(own, there)
}

// answers says whether anybody listens on a socket.
func answers(path string) bool {
	conn, err := net.DialTimeout("unix", path, askOther)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// take puts a socket in the place of whatever is there. Who connected to that one before is still answered by its owner.
func (p *Pods) take(accept func(net.Listener)) error {
	next := fmt.Sprintf("%s.%d", p.socketPath(), time.Now().UnixNano())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: next, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false) // by then another one may be there
	info, err := os.Lstat(next)
	if err := errors.Join(err, os.Chmod(next, 0o600), os.Rename(next, p.socketPath())); err != nil {
		return errors.Join(err, l.Close(), os.Remove(next))
	}
	p.mu.Lock()
	before := p.holder.socket
	p.holder.socket, p.own, p.holds, p.has = l, info, true, true
	for _, s := range p.served {
		s.again = time.Time{} // who had it may have been in the way
		p.choose(s.names, true)
	}
	p.asks()
	p.mu.Unlock()
	if before != nil {
		_ = before.Close()
	}
	go accept(l)
	p.cfg.Log.Info("this agent holds the node")
	return nil
}

// letGo ends the listening.
func (p *Pods) letGo() error {
	p.mu.Lock()
	l := p.holder.socket
	p.holder.socket, p.holds = nil, false
	p.mu.Unlock()
	if l == nil {
		return nil
	}
	return l.Close()
}

// Leave implements agent.Pods: the agent is told to end. Whoever else is there takes the node over.
func (p *Pods) Leave() {
	p.mu.Lock()
	p.leaves = true
	p.asks()
	p.mu.Unlock()
	_ = p.letGo()
}

// Elsewhere implements agent.Pods: another agent serves all pods, so that this one needs to take nothing new.
func (p *Pods) Elsewhere() bool {
	if p.mine() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), askOther)
	defer cancel()
	return cni.Ask(ctx, p.cfg.RunDir, cni.Request{Do: ready}) == nil
}

// Succeeded says whether another agent has the node, once this one has ended: in a moment it would have taken what was left to it.
func (p *Pods) Succeeded() bool {
	for until := time.Now().Add(askOther); ; time.Sleep(lookEvery) {
		if answers(p.socketPath()) {
			return true
		}
		if time.Now().After(until) {
			return false
		}
	}
}

// behind says what this agent lacks to serve all pods that it knows of; "" when it lacks nothing. Pods that cannot be served for a reason of their
// own are no reason any more when it has tried for a while, but where it serves none and the holder does.
func (p *Pods) behind(ctx context.Context) string {
	p.mu.Lock()
	late := p.may && time.Since(p.since) > catchUp
	refused := p.Listeners.refusals()
	why, excused, serves := "the controller has not told all yet", []Local{}, false
	if p.may {
		why = ""
	}
	for key, r := range p.remote {
		l, here := p.local[key]
		if !here || !p.waiting(r) || why != "" {
			continue
		}
		switch own, lacks := p.unserved(l, refused); {
		case lacks == nil:
			serves = true
		case late && own:
			excused = append(excused, l)
		default:
			why = key + ": " + lacks.Error()
		}
	}
	holds := p.holds
	p.mu.Unlock()
	switch {
	case why != "":
		return why
	case !p.taken(late):
		return "Envoy has not accepted all listeners yet"
	case p.cfg.Warming(ctx):
		return "Envoy does not listen everywhere yet"
	case serves || holds || len(excused) == 0:
		return ""
	}
	return p.servedElsewhere(ctx, excused)
}

// unserved says why a pod that should be served is not, and whether the reason is its own: it was tried, and it is not that anything is still to
// come. nil when it is served. The lock is held.
func (p *Pods) unserved(l Local, refused map[string]string) (own bool, why error) {
	s, why := p.servedAs(l)
	switch {
	case why != nil:
		return false, why
	case s.err != nil:
		return true, s.err
	case !s.opened:
		return false, errNoCertificate
	case refused[l.Key()] != "":
		return true, errors.New("Envoy refuses its listeners: " + refused[l.Key()])
	}
	return false, nil
}

// taken says whether Envoy has taken all listeners, late also but for those that it refuses for one of the pods.
func (p *Pods) taken(late bool) bool {
	return p.Listeners.Taken() || late && len(p.Listeners.refusals()) > 0
}

// servedElsewhere says that the holder serves one of some pods, or does not say; "" where it serves none.
func (p *Pods) servedElsewhere(ctx context.Context, pods []Local) string {
	for _, l := range pods {
		ctx, cancel := context.WithTimeout(ctx, askOther)
		err := cni.Ask(ctx, p.cfg.RunDir, cni.Request{Do: cni.Check, Local: l})
		cancel()
		switch {
		case err == nil:
			return "no pod can be served, and the agent that holds the node serves some: " + l.Key()
		case errors.Is(err, cni.ErrAway):
			return "no pod can be served, and whether the agent that holds the node serves some is not known: " + err.Error()
		}
	}
	return ""
}

// lacksAtFirst says what the agent lacks before it has served all pods once, and held the node.
func (p *Pods) lacksAtFirst() string {
	p.mu.Lock()
	complete := p.complete && p.has
	p.mu.Unlock()
	if complete {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), askOther)
	defer cancel()
	if why := p.behind(ctx); why != "" {
		return why
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.complete = true; !p.has {
		return "another agent still holds this node"
	}
	return ""
}

// takesIn says whether this agent takes in who comes, and relieved whether another one does. The lock is held.
func (h *holder) takesIn() bool  { return h.may && !h.leaves && !h.relieved() }
func (h *holder) relieved() bool { return h.has && !h.holds }

// errNoCertificate is of a pod that is taken in, and whose listeners are not opened yet.
var errNoCertificate = errors.New("its certificate has not come yet")

// waiting says whether a pod is to be served. The lock is held.
func (p *Pods) waiting(r ambient.Pod) bool { return r.In && p.why(r) == "" }
