package secrets

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// Pods keeps the certificates of the pods that a node's agent serves, beside the agent's own, and hands them to Envoy by the names of
// their identities. Pods of one account share one. Its methods may be called at the same time.
type Pods struct {
	of      *Workload
	conn    grpc.ClientConnInterface
	metrics metrics // that nobody reads: pods have none of their own
	save    func(folder string, c *certificate, roots []*x509.Certificate) error
	turns   chan struct{} // of those who write to the disk

	mu   sync.Mutex
	kept map[string]*kept // by SPIFFE id
	work sync.WaitGroup
}

// kept is one identity's certificate, and what ends the keeping of it.
type kept struct {
	*Workload
	users int
	end   context.CancelFunc
}

// NewPods keeps certificates beside w's, asked for over conn with w's token.
func NewPods(w *Workload, conn grpc.ClientConnInterface) *Pods {
	return &Pods{of: w, conn: conn, metrics: newMetrics(nil, w), save: save, turns: make(chan struct{}, savedAtOnce), kept: map[string]*kept{}}
}

// savedAtOnce is how many certificates are written to the disk at a time: each that waits for the disk holds a thread, which stays, and an agent that begins has them all come at once.
const savedAtOnce = 4

// saveInTurn is save, when it is one's turn.
func (p *Pods) saveInTurn(folder string, c *certificate, roots []*x509.Certificate) error {
	p.turns <- struct{}{}
	defer func() { <-p.turns }()
	return p.save(folder, c, roots)
}

// Keep has a certificate of an identity until Drop is called as often. The channel is closed once there is one.
func (p *Pods) Keep(id string) (<-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.kept[id]; k != nil {
		k.users++
		return k.Ready(), nil
	}
	o := p.of.options
	o.As, o.Namespace, o.ServiceAccount, o.Metrics, o.Folder = id, "", "", nil, p.folder(id)
	ctx, end := context.WithCancel(context.Background())
	w := &Workload{options: o, given: &rootFile{}, metrics: p.metrics, beside: p.of, shown: func(c *certificate) { p.show(ctx, id, c) }}
	if err := w.open(); err != nil {
		end()
		return nil, err
	}
	w.save = p.saveInTurn
	p.kept[id] = &kept{Workload: w, users: 1, end: end}
	p.work.Go(func() {
		w.Run(ctx, p.conn)
		p.forget(id)
	})
	return w.Ready(), nil
}

// show hands an identity's certificate to Envoy, until ctx ends.
func (p *Pods) show(ctx context.Context, id string, c *certificate) {
	if c.expired(time.Now()) || c.spiffeID() != id {
		return
	}
	s, err := pack(c.secret(id))
	if err != nil {
		p.of.options.Log.Error("the certificate of a pod cannot be shown", "identity", id, "error", err)
		return
	}
	p.set(func(all map[string]secret) {
		if ctx.Err() == nil {
			all[id] = s
		}
	})
}

func (p *Pods) set(change func(map[string]secret)) {
	p.of.board.update(func(m material) material {
		next := maps.Clone(m.pods)
		if next == nil {
			next = map[string]secret{}
		}
		change(next)
		m.pods = next
		return m
	})
}

// Drop is the opposite of Keep: with the last one the certificate goes, also from the disk.
func (p *Pods) Drop(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.kept[id]
	if k == nil {
		return
	}
	if k.users--; k.users > 0 {
		return
	}
	k.end()
	delete(p.kept, id)
	p.set(func(all map[string]secret) { delete(all, id) })
}

// forget removes from the disk what nobody is served with any more.
func (p *Pods) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept[id] != nil { // the agent ends, or a pod of the account came again
		return
	}
	if err := os.RemoveAll(p.folder(id)); err != nil {
		p.of.options.Log.Warn("the certificate of a pod that is gone cannot be removed", "identity", id, "error", err)
	}
}

// Close ends the keeping of all; what is on the disk stays for the next run.
func (p *Pods) Close() {
	p.mu.Lock()
	for _, k := range p.kept {
		k.end()
	}
	p.mu.Unlock()
	p.work.Wait()
}

func (p *Pods) folder(id string) string {
	hash := sha256.Sum256([]byte(id))
	return filepath.Join(filepath.Dir(filepath.Clean(p.of.options.Folder)), "pods", hex.EncodeToString(hash[:16]))
}
