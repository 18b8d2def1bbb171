package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// client obeys an order and prints its tally. It runs where the way begins.
func client(ctx context.Context, text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	t, err := o.run(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(t)
}

func (o order) run(ctx context.Context) (tally, error) {
	target, err := o.target(ctx)
	if err != nil {
		return tally{}, err
	}
	settings := &tls.Config{
		ServerName: o.Host, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		CurvePreferences: []tls.CurveID{tls.X25519}, // the cheapest
		// The server's certificate must be the very one that was issued. To verify its chain would tell no more, and costs
		// more than both Envoys.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if !bytes.Equal(s.PeerCertificates[0].Raw, o.Leaf) {
				return errors.New("another certificate than the server's")
			}
			return nil
		},
	}
	counts := time.Now().Add(o.Warm)
	left := &budget{counts: counts, ends: counts.Add(o.Duration), requests: o.Requests}
	callers := make([]*caller, o.Clients)
	var all sync.WaitGroup
	for i := range callers {
		c := &caller{order: o, target: target, tls: settings, budget: left}
		callers[i] = c
		all.Go(func() { c.loop(ctx) })
	}
	warm := time.AfterFunc(o.Warm, left.noteCPU)
	all.Wait()
	warm.Stop()
	t := summary(callers, time.Since(counts))
	t.Busy = ownCPU() - left.cpu()
	return t, ctx.Err()
}

// target is where the pod's own DNS says that the host is.
func (o order) target(ctx context.Context) (string, error) {
	port := strconv.Itoa(o.Port)
	if o.Addr != "" {
		return net.JoinHostPort(o.Addr, port), nil
	}
	found, err := (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip4", o.Host+".")
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", o.Host, err)
	}
	return net.JoinHostPort(found[0].String(), port), nil
}

// budget says how long a round goes on; callers share it.
type budget struct {
	counts, ends time.Time

	mu       sync.Mutex
	requests int // left; 0 when there is no limit
	done     bool
	before   time.Duration // the process's CPU when counting began
}

// next says whether one more request is to be made.
func (b *budget) next() bool {
	if time.Now().After(b.ends) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return false
	}
	if b.requests > 0 {
		b.requests--
		b.done = b.requests == 0
	}
	return true
}

func (b *budget) noteCPU() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before = ownCPU()
}

func (b *budget) cpu() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.before
}

// ownCPU is the processor time of this process, in user and system mode.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
