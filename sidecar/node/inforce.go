package node

import (
	"bytes"
	"context"
	"maps"
	"time"
)

// inForceAtMost is how long the controller does not hear at most that pods have other listeners.
const inForceAtMost = time.Second

// inForce gives what is closed when Envoy listens as the controller said last for pods that were served before; nil where it said nothing else of any (relay.Watch). Until then the controller tells nobody to speak
// to them otherwise, as a waypoint does that comes before them. Of pods that begin, the controller hears at once.
func (p *Pods) inForce() <-chan struct{} {
	p.mu.Lock()
	turned := p.turned
	p.turned = nil
	p.mu.Unlock()
	if len(turned) == 0 {
		return nil
	}
	counts := make(chan struct{})
	go func() {
		defer close(counts)
		ctx, cancel := context.WithTimeout(context.Background(), inForceAtMost)
		defer cancel()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for !p.listensBy(turned) || p.cfg.Warming(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return counts
}

// listensBy says whether Envoy has taken the listeners of pods as the controller said them last. Who is not served has none.
func (p *Pods) listensBy(pods []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range pods {
		s := p.served[key]
		if s != nil && s.err == nil && s.opened && !p.Listeners.has(key, p.remote[key].Templates) {
			return false
		}
	}
	return true
}

// has says whether the connected Envoy has taken a pod's listeners with these templates, or refuses them.
func (l *Listeners) has(pod string, templates map[string][]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, open := l.pods[pod]
	return open && (l.taken || l.refused != nil) && maps.EqualFunc(d.templates, templates, bytes.Equal)
}
