package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/world"
)

// host is the name that is asked for, and serverAddr where it really is.
const host = "measured.test"

var serverAddr = netip.MustParseAddr("203.0.113.80")

// side is one of the two that are compared.
type side struct {
	name  string
	world *world.World
	self  string // this program
	ends  map[way]*end
}

// serve starts the server outside, with a certificate of the CA, which it gives.
func (s *side) serve(run *world.Run, ca *outside.CA) (certificate []byte, err error) {
	cert, key := filepath.Join(run.Dir, "server.pem"), filepath.Join(run.Dir, "server.key")
	leaf, err := ca.Issue(host)
	if err != nil {
		return nil, err
	}
	if err := writeCertificate(cert, key, leaf); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	if _, err := s.world.Outside.Run(ctx, 0, "ip", "addr", "add", serverAddr.String()+"/24", "dev", "eth0"); err != nil {
		return nil, err
	}
	addr := net.JoinHostPort(serverAddr.String(), "443")
	p, err := s.world.Outside.Start("server", 0, s.self, "server", addr, cert, key)
	if err != nil {
		return nil, err
	}
	return leaf.Certificate[0], errors.Join(pin(p.PID(), otherCPU), ports(ctx, s.world.App, s.world.Gateway, s.world.Outside))
}

// serveApp starts the server that is a pod's app.
func (s *side) serveApp(pod *world.Host, at netip.Addr) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	p, err := pod.Start("app", 0, s.self, "app", net.JoinHostPort(at.String(), strconv.Itoa(podPort)))
	if err != nil {
		return err
	}
	return errors.Join(pin(p.PID(), otherCPU), ports(ctx, pod))
}

// ports lets clients use a port again after a second: a minute, as usual, is too long for so many connections.
func ports(ctx context.Context, hosts ...*world.Host) error {
	for _, h := range hosts {
		_, err := h.Run(ctx, 0, "sysctl", "-qw", "net.ipv4.tcp_tw_reuse=1", "net.ipv4.ip_local_port_range=2048 65000")
		if err != nil {
			return err
		}
	}
	return nil
}

const readyWithin = 2 * time.Minute

// sample is one round on one side.
type sample struct {
	tally
	EnvoyCPU [2]time.Duration // of both Envoys on the way, for each request
	AgentCPU time.Duration    // of both agents, for each request
	// How busy the processors were, 0 to 1: that of the Envoys, and the one that clients and servers share.
	EnvoysBusy, OthersBusy float64
	Foreign                float64 // how much of the Envoys' processor others than these Envoys took, 0 to 1
}

// envoys is the processor time of both Envoys for a request.
func (s sample) envoys() time.Duration { return s.EnvoyCPU[0] + s.EnvoyCPU[1] }

// round has the side's clients do what is ordered.
func (s *side) round(ctx context.Context, o order) (sample, error) {
	e := s.ends[o.Way]
	o.Host, o.Port, o.Addr, o.Leaf = e.host, e.port(o.TLS), e.addr, e.leaf
	text, err := json.Marshal(o)
	if err != nil {
		return sample{}, err
	}
	before, began := e.usage(), time.Now()
	out, err := e.from.Run(ctx, 0, "taskset", "-c", fmt.Sprint(otherCPU), s.self, "client", string(text))
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", s.name, err)
	}
	after, took := e.usage(), time.Since(began)
	var got sample
	if err := json.Unmarshal(out, &got.tally); err != nil {
		return sample{}, fmt.Errorf("%s: a client said %q: %w", s.name, out, err)
	}
	// What was used while it warmed up is of as many requests at the same rate.
	requests := max(got.rate()*(o.Warm+got.Took).Seconds(), 1)
	each := func(d time.Duration) time.Duration { return time.Duration(float64(d) / requests) }
	got.EnvoyCPU = [2]time.Duration{each(after.envoys[0] - before.envoys[0]), each(after.envoys[1] - before.envoys[1])}
	got.AgentCPU = each(after.agents - before.agents)
	got.EnvoysBusy = float64(after.busy[0]-before.busy[0]) / float64(took)
	own := after.envoys[0] - before.envoys[0] + after.envoys[1] - before.envoys[1]
	got.Foreign = max(0, float64(after.busy[0]-before.busy[0]-own)/float64(took))
	got.OthersBusy = float64(after.busy[1]-before.busy[1]) / float64(took)
	return got, nil
}

// patientRound is round, and a longer one where a busy machine let nobody begin and end a request in the time.
func (s *side) patientRound(ctx context.Context, o order) (got sample, err error) {
	for ; ; o.Duration *= 4 {
		if got, err = s.round(ctx, o); err != nil || got.Requests+got.Failures > 0 || o.Duration > time.Minute {
			return got, err
		}
	}
}

type usage struct {
	envoys [2]time.Duration
	agents time.Duration
	busy   [2]time.Duration
}

func (e *end) usage() (u usage) {
	for i, pid := range e.envoys {
		u.envoys[i] = used(pid)
	}
	for _, pid := range e.agents {
		u.agents += used(pid)
	}
	u.busy = [2]time.Duration{busy(envoyCPU), busy(otherCPU)}
	return u
}

// place pins the side's processes.
func (s *side) place() error {
	for _, e := range s.ends {
		for _, pid := range e.agents {
			if err := pin(pid, otherCPU); err != nil {
				return err
			}
		}
		for _, pid := range e.envoys {
			if pid == 0 {
				continue // one Envoy is both
			}
			if err := pin(pid, envoyCPU); err != nil {
				return err
			}
		}
	}
	return nil
}
