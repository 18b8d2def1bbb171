package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/miekg/dns"
)

// rounds is how often each server is asked at most.
const rounds = 3

// ErrBeaten is why an attempt ends when another one has brought the answer.
var ErrBeaten = errors.New("another server was faster")

// race is one question on its way to the servers: one is asked, and another one as well when that takes too long.
type race struct {
	client   *Client
	question Question
	peers    []*peer
	next     int // of the attempts there may be: round × servers + server
	running  map[*peer]bool
	declined map[*peer]bool // they answered, but with a failure
	results  chan result
	bad      Response // the first such answer
	errs     []error
}

// result is the end of one attempt.
type result struct {
	peer *peer
	msg  *dns.Msg
	err  error
}

func newRace(c *Client, q Question, peers []*peer) *race {
	return &race{
		client: c, question: q, peers: peers, running: map[*peer]bool{}, declined: map[*peer]bool{},
		results: make(chan result, rounds*len(peers)),
	}
}

func (r *race) run(ctx context.Context) (Response, error) {
	ctx, cancel := context.WithTimeout(ctx, r.client.config.Patience)
	defer cancel()
	stop := context.AfterFunc(r.client.base, cancel)
	defer stop()
	ctx, win := context.WithCancelCause(ctx)
	defer win(ErrBeaten)

	wake := time.NewTimer(r.launch(ctx))
	defer wake.Stop()
	for {
		select {
		case got := <-r.results:
			delete(r.running, got.peer)
			if got.err == nil {
				return Response{Msg: got.msg, Server: got.peer.Server}, nil
			}
			r.fail(got)
			switch {
			case ctx.Err() == nil && r.more():
				wake.Reset(r.pause())
			case len(r.running) == 0:
				return r.result(ctx)
			}
		case <-wake.C:
			if ctx.Err() == nil {
				wake.Reset(r.launch(ctx))
			}
			if len(r.running) == 0 {
				return r.result(ctx)
			}
		}
	}
}

// more tells whether there is an attempt left to start.
func (r *race) more() bool {
	return len(r.declined) < len(r.peers) && r.next < rounds*len(r.peers)
}

// pause leaves servers that fail at once, as one that restarts does, a moment before they are asked again.
func (r *race) pause() time.Duration {
	if round := r.next / len(r.peers); r.next%len(r.peers) == 0 {
		return 50 * time.Millisecond << (2 * (round - 1))
	}
	return 0
}

// launch starts the next attempt, unless that server is being asked still, and returns when to call it again.
func (r *race) launch(ctx context.Context) time.Duration {
	for r.more() {
		p, round := r.peers[r.next%len(r.peers)], r.next/len(r.peers)
		if r.running[p] {
			break
		}
		r.next++
		if r.declined[p] {
			continue
		}
		r.running[p] = true
		r.client.work.Go(func() { r.results <- r.client.attempt(ctx, p, r.question, round) })
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.hedge()
	}
	return r.client.config.Patience
}

func (r *race) fail(got result) {
	r.errs = append(r.errs, fmt.Errorf("upstream %s: %w", got.peer, got.err))
	if errors.Is(got.err, ErrDeclined) {
		r.declined[got.peer] = true
		if r.bad.Msg == nil {
			r.bad = Response{Msg: got.msg, Server: got.peer.Server}
		}
	}
}

func (r *race) result(ctx context.Context) (Response, error) {
	switch {
	case r.bad.Msg != nil:
		return r.bad, nil
	case errors.Is(ctx.Err(), context.Canceled):
		return Response{}, context.Canceled
	default:
		return Response{}, errors.Join(r.errs...)
	}
}

// attempt asks one server once and remembers how it did.
func (c *Client) attempt(ctx context.Context, p *peer, q Question, round int) result {
	own, cancel := context.WithTimeout(ctx, p.patience()<<round)
	defer cancel()
	start := time.Now()
	msg, err := p.exchange(own, q)
	took := time.Since(start)
	if err == nil && msg.Rcode != dns.RcodeSuccess && msg.Rcode != dns.RcodeNameError {
		err = fmt.Errorf("%w: %s", ErrDeclined, dns.RcodeToString[msg.Rcode])
	}
	beaten := err != nil && errors.Is(context.Cause(ctx), ErrBeaten)
	p.mu.Lock()
	if beaten {
		p.beaten(took, time.Now())
		err = ErrBeaten
	} else {
		p.note(took, err, time.Now())
	}
	p.mu.Unlock()
	c.config.Observe(p.Server, took, err)
	return result{peer: p, msg: msg, err: err}
}

// patience is how long the first attempt may take. A connection must be made first.
func (p *peer) patience() time.Duration {
	if p.Transport == UDP {
		return 800 * time.Millisecond
	}
	return 1600 * time.Millisecond
}
