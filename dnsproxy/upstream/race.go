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
	return &race{client: c, question: q, peers: peers, results: make(chan result, rounds*len(peers))}
}

// run asks the first server itself. Only if that takes too long, or fails, is there a race.
func (r *race) run(ctx context.Context) (Response, error) {
	if own, cancel, needed := r.bounded(ctx); needed {
		defer cancel()
		ctx = own
	}
	ctx, win := context.WithCancelCause(ctx)
	defer win(ErrBeaten)
	stop := context.AfterFunc(r.client.base, func() { win(context.Canceled) })
	defer stop()

	first := r.peers[0]
	r.next = 1
	raced := make(chan outcome, 1)
	first.mu.Lock()
	patience := first.pace.hedge(&first.health)
	first.mu.Unlock()
	hedge := time.AfterFunc(patience, func() {
		r.running = map[*peer]bool{first: true}
		response, err := r.race(ctx, r.launch(ctx))
		win(ErrBeaten)
		raced <- outcome{response, err}
	})
	got := r.client.attempt(ctx, first, r.question, 0)
	switch {
	case !hedge.Stop():
		r.results <- got
		all := <-raced
		return all.response, all.err
	case got.err == nil:
		return Response{Msg: got.msg, Server: first.Server}, nil
	default:
		r.running = map[*peer]bool{first: true}
		r.results <- got
		return r.race(ctx, r.client.config.Patience)
	}
}

// outcome is how a race ended.
type outcome struct {
	response Response
	err      error
}

// bounded gives a context that ends with the client's patience, unless ctx does so anyway.
func (r *race) bounded(ctx context.Context) (own context.Context, cancel context.CancelFunc, needed bool) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= r.client.config.Patience {
		return nil, nil, false
	}
	own, cancel = context.WithTimeout(ctx, r.client.config.Patience)
	return own, cancel, true
}

// race takes results, and starts further attempts: the first of them after wait.
func (r *race) race(ctx context.Context, wait time.Duration) (Response, error) {
	wake := time.NewTimer(wait)
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
		return p.pace.hedge(&p.health)
	}
	return r.client.config.Patience
}

func (r *race) fail(got result) {
	r.errs = append(r.errs, fmt.Errorf("upstream %s: %w", got.peer, got.err))
	if errors.Is(got.err, ErrDeclined) {
		if r.declined == nil {
			r.declined = map[*peer]bool{}
		}
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
	start := time.Now()
	until := start.Add(p.pace.patience(p.Transport) << round)
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		until = end
	}
	msg, err := p.exchange(ctx, until, q)
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
