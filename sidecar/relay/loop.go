package relay

import (
	"context"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

const (
	// What may be on its way to Envoy before the relay stops reading from the controller: bytes and responses.
	maxFlying    = MaxMessage
	maxResponses = 256

	purgeAfter = 10 * time.Second
	// envoyDue is how long the controller's stream waits for Envoy's node before the agent's own is used.
	envoyDue = 3 * time.Second
	// holdTime is how long what comes last waits for an Envoy that says nothing.
	holdTime = 10 * time.Second
	// sweepEvery is how often is looked for what is not used any more.
	sweepEvery = 15 * time.Second
)

// loop is the relay's goroutine: one select, one event at a time.
type loop struct {
	*Relay
	ctx     context.Context
	streams sync.WaitGroup

	session *session // the connected Envoy, or nil
	stream  *upstream
	backoff Backoff
	trouble string // the last error on the way to the controller

	grace, retry, purge, hold, sweep <-chan time.Time
}

func (l *loop) run() {
	l.retry = time.After(envoyDue)
	defer l.hangUp()
	defer func() {
		if l.session != nil {
			close(l.session.over)
		}
	}()
	for {
		m := l.machine
		controller := l.Relay.controller
		if m.flying > maxFlying || len(m.toEnvoy) > maxResponses {
			controller = nil
		}
		toEnvoy, response := l.nextToEnvoy()
		toController, request := l.nextToController()
		select {
		case <-l.ctx.Done():
			return
		case s := <-l.sessions:
			l.envoyCame(s)
		case req := <-l.requests:
			l.envoySpoke(req)
		case event := <-controller:
			l.controllerSpoke(event)
		case toEnvoy <- response:
			m.toEnvoy = pop(m.toEnvoy)
		case toController <- request:
			m.toController = pop(m.toController)
		case <-l.grace:
			l.grace = nil
			m.losePatience()
		case <-l.retry:
			l.retry = nil
			l.dial()
		case <-l.purge:
			l.purge = nil
			m.purge()
		case <-l.hold:
			l.hold = nil
			m.waitNoLonger()
		case <-l.sweep:
			l.sweep = nil
			m.sweep()
		case f := <-l.calls:
			f()
		}
		if l.sweep == nil && m.rows != nil {
			l.sweep = time.After(sweepEvery)
		}
		if l.purge == nil && m.leaving() {
			l.purge = time.After(purgeAfter)
		}
		switch held := m.holding(); {
		case !held:
			l.hold = nil
		case l.hold == nil:
			l.hold = time.After(holdTime)
		}
		if l.grace == nil && m.waiting() {
			l.grace = time.After(l.cfg.Grace / 2)
		}
		l.synced.Store(l.session != nil && m.synced())
		l.settled.Store(l.session != nil && m.settled())
		l.note()
		l.reachable.Store(m.heard)
	}
}

// note keeps what Envoy lacks for those who ask whether the pod is ready.
func (l *loop) note() {
	lacks := "envoy has not connected yet"
	if l.session != nil {
		lacks = l.machine.lacks()
	}
	if was := l.missing.Load(); was == nil || *was != lacks {
		l.missing.Store(&lacks)
	}
}

func (l *loop) nextToEnvoy() (chan<- *discoveryv3.DeltaDiscoveryResponse, *discoveryv3.DeltaDiscoveryResponse) {
	if l.session == nil || len(l.machine.toEnvoy) == 0 {
		return nil, nil
	}
	return l.session.out, l.machine.toEnvoy[0]
}

func (l *loop) nextToController() (chan<- *discoveryv3.DeltaDiscoveryRequest, *discoveryv3.DeltaDiscoveryRequest) {
	if l.stream == nil || len(l.machine.toController) == 0 {
		return nil, nil
	}
	return l.stream.out, l.machine.toController[0]
}

// pop takes the first message off, without keeping it alive.
func pop[T any](queue []*T) []*T {
	queue[0] = nil
	if len(queue) == 1 {
		return nil
	}
	return queue[1:]
}

// envoyCame replaces the session. The stream to the controller begins anew with Envoy's first request, so that it
// carries that Envoy's node and nothing of the old subscriptions.
func (l *loop) envoyCame(s *session) {
	if l.session != nil {
		l.log.Warn("another Envoy has connected; the former stream ends")
		close(l.session.over)
	}
	l.session = s
	l.machine.envoyGone()
}

func (l *loop) envoySpoke(req request) {
	if req.from != l.session {
		return
	}
	if req.err != nil {
		l.log.Info("Envoy's configuration stream ended", "reason", req.err)
		close(l.session.over)
		l.session = nil
		l.machine.envoyGone()
		return
	}
	if !l.session.greeted {
		l.session.greeted = true
		if node := presentable(req.DeltaDiscoveryRequest.GetNode()); node != nil {
			l.machine.node = node
		}
		l.hangUp()
		l.machine.controllerGone()
		l.dial()
	}
	l.machine.envoyRequest(req.DeltaDiscoveryRequest)
}

// presentable is Envoy's node without its list of compiled-in extensions, some 40 KiB that the controller would
// keep for every proxy.
func presentable(node *corev3.Node) *corev3.Node {
	if node == nil {
		return nil
	}
	out := proto.Clone(node).(*corev3.Node)
	out.Extensions = nil
	return out
}
