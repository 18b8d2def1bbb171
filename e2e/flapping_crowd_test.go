package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// habit is what an endpoint of a crowd does.
type habit int

const (
	comesAndGoes habit = iota // its servers, too
	blinks                    // is ready and is not; its servers stay
	stays
)

// stage is where an endpoint is on its way; each change of it is one of the crowd's.
type stage int

const (
	away    stage = iota
	ready         // clients are led there
	leaving       // not ready, serving, terminating: it answers, and asks to be left
	gone          // nobody is led there any more, and its servers have ended
)

// crowd is what a host's endpoints are, and the objects that say so.
type crowd struct {
	name, file string
	objects    func(*crowd) string
	proxies    int // how many proxies lead clients there

	mu   sync.Mutex
	all  []*server
	took []time.Duration // from leaving until it is forgotten
}

// server is one endpoint.
type server struct {
	name  string
	addr  netip.Addr
	host  *world.Host
	habit habit
	beat  *beat

	stage stage     // the crowd's mutex is held for it, and for what follows
	known bool      // by the proxies, since it came
	since time.Time // when it began to leave

	leaves    atomic.Bool
	open      atomic.Int64 // connections
	listeners []net.Listener
	http      *http.Server
	running   sync.WaitGroup
}

func (c *crowd) add(t *testing.T, b *beat, at *world.Host, addr netip.Addr, h habit) {
	t.Helper()
	s := &server{name: fmt.Sprintf("%s-%s", c.name, addr), addr: addr, host: at, habit: h, beat: b}
	c.all = append(c.all, s)
	t.Cleanup(func() { s.end() })
	if h != comesAndGoes {
		s.stage = ready
		if err := s.begin(); err != nil {
			t.Fatal(err)
		}
	}
}

// step makes one change: who has left goes, or somebody comes, or leaves, so that about a third of them are there.
func (c *crowd) step() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var there, out, left []*server
	for _, s := range c.all {
		switch {
		case s.stage == gone:
			left = append(left, s)
		case s.stage == away:
			out = append(out, s)
		case s.stage == ready && s.known && s.habit != stays:
			there = append(there, s)
		}
	}
	switch {
	case len(left) > 0:
		left[0].stage = away
		c.last(left[0])
	case len(there) > len(c.all)/3 || len(there) > 0 && len(out) == 0:
		s := there[0]
		s.leaves.Store(true)
		s.stage, s.since = leaving, time.Now()
	case len(out) > 0:
		s := out[0]
		if s.habit == comesAndGoes {
			if err := s.begin(); err != nil {
				return false
			}
		}
		s.leaves.Store(false)
		s.stage, s.known = ready, false
		c.last(s)
	default:
		return false
	}
	return true
}

// last moves a server to the end of the queue.
func (c *crowd) last(s *server) {
	for i, x := range c.all {
		if x == s {
			c.all = append(append(c.all[:i:i], c.all[i+1:]...), s)
			return
		}
	}
}

// seen is told how many proxies knew each address at a time. It ends the servers that leave since before it, that none knew, and that have no connection.
func (c *crowd) seen(asked time.Time, by map[netip.Addr]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.all {
		s.known = s.known || s.stage == ready && by[s.addr] >= c.proxies
		if s.stage != leaving || !s.since.Before(asked) || by[s.addr] > 0 || s.habit == comesAndGoes && s.open.Load() > 0 {
			continue
		}
		c.took = append(c.took, asked.Sub(s.since))
		if s.habit == comesAndGoes {
			s.end()
		}
		s.stage = gone
	}
}

func (c *crowd) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, s := range c.all {
		if s.stage == leaving {
			fmt.Fprintf(&b, "%s leaves since %s and has %d connections\n", s.name, time.Since(s.since), s.open.Load())
		}
	}
	return b.String()
}

// begin opens the server's ports.
func (s *server) begin() error {
	var opened []net.Listener
	for _, port := range []uint16{crowdHTTP, crowdTCP} {
		l, err := s.host.Listen(netip.AddrPortFrom(s.addr, port).String())
		if err != nil {
			for _, l := range opened {
				err = errors.Join(err, l.Close())
			}
			return err
		}
		opened = append(opened, l)
	}
	s.listeners = opened
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: attackTimeout, ConnState: s.count}
	s.running.Go(func() { _ = s.http.Serve(opened[0]) })
	s.running.Go(func() { s.lines(opened[1]) })
	return nil
}

// end closes them.
func (s *server) end() {
	if s.http == nil {
		return
	}
	_ = s.http.Close()
	for _, l := range s.listeners {
		_ = l.Close()
	}
	s.running.Wait()
	s.http, s.listeners = nil, nil
}

func (s *server) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.open.Add(1)
	case http.StateClosed:
		s.open.Add(-1)
	}
}

// ServeHTTP says who it is, asks to be left when it leaves, and for /slow takes some changes' time in the middle of the answer.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.leaves.Load() {
		w.Header().Set("Connection", "close")
	}
	_, _ = fmt.Fprintf(w, "crowd %s ", s.named())
	if r.URL.Path == "/slow" {
		_ = http.NewResponseController(w).Flush()
		<-s.beat.next()
	}
	_, _ = io.WriteString(w, "whole")
}

// lines answers each line, and says when it leaves.
func (s *server) lines(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.open.Add(1)
		s.running.Go(func() {
			defer func() { _ = conn.Close(); s.open.Add(-1) }()
			_ = conn.SetDeadline(time.Now().Add(10 * flapPatience))
			for in := bufio.NewReader(conn); ; {
				if _, err := in.ReadString('\n'); err != nil {
					return
				}
				farewell := "whole"
				if s.leaves.Load() {
					farewell = "bye"
				}
				if _, err := fmt.Fprintf(conn, "crowd %s %s\n", s.named(), farewell); err != nil {
					return
				}
			}
		})
	}
}

// named is its name, which tells whether it stays.
func (s *server) named() string {
	if s.habit == stays {
		return "steady-" + s.name
	}
	return "comer-" + s.name
}

// beat lets those who wait for it go on, each time that it is struck; for ever when it has ended.
type beat struct {
	mu    sync.Mutex
	c     chan struct{}
	ended bool
}

func newBeat() *beat { return &beat{c: make(chan struct{})} }

func (b *beat) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.c
}

func (b *beat) strike() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		close(b.c)
		b.c = make(chan struct{})
	}
}

func (b *beat) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.ended = true
		close(b.c)
	}
}

// crowdPods are the pods behind the Service, which are there all the time; the first three have proxies.
func crowdPods(c *crowd) string {
	var b strings.Builder
	for i, s := range c.all {
		meshed := ""
		if i < 3 {
			meshed = ", security.istio.io/tlsMode: istio"
		}
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: crowd-%d, namespace: default, labels: {app: crowd%s}}\nspec: {serviceAccountName: crowd, containers: []}\nstatus: {podIP: %s, phase: Running}\n",
			s.addr.As4()[3], meshed, s.addr)
	}
	return b.String()
}

// crowdSlice is the Service's EndpointSlice.
func crowdSlice(c *crowd) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	b.WriteString("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: crowd-1, namespace: default, labels: {kubernetes.io/service-name: crowd}}\naddressType: IPv4\n" +
		"ports:\n- {name: http, port: 8080, protocol: TCP}\n- {name: tcp, port: 9000, protocol: TCP}\nendpoints:\n")
	for _, s := range c.all {
		if s.stage == ready || s.stage == leaving {
			fmt.Fprintf(&b, "- {addresses: [%s], conditions: {ready: %t, serving: true, terminating: %t}, targetRef: {kind: Pod, name: crowd-%d, namespace: default}}\n",
				s.addr, s.stage == ready, s.stage == leaving, s.addr.As4()[3])
		}
	}
	return b.String()
}

// crowdEntries are the WorkloadEntries of the host outside.
func crowdEntries(c *crowd) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, s := range c.all {
		if s.stage == ready {
			fmt.Fprintf(&b, "---\napiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: crowd-%d, namespace: default, labels: {app: crowd-outside}}\nspec: {address: %s, labels: {app: crowd-outside}}\n",
				s.addr.As4()[3], s.addr)
		}
	}
	return b.String()
}
