package serve

import (
	"slices"
	"strconv"
	"sync"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/xds/compress"
)

type deltaStream = grpc.BidiStreamingServer[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]

// delta is one delta stream. Two goroutines work for it, one at a time: one hears what the client says, and sends what is answered to it at once; the
// other one, which gRPC began it with, sends what comes by itself. Whoever makes an answer waits for neither.
type delta struct {
	server *Server
	grpc   deltaStream
	url    string // of all that is asked for; "" where each request says it
	form   compress.Form

	turn   sync.Mutex // of the two goroutines
	heard  discovery.DeltaDiscoveryRequest
	nonces int64
	st     *stream // nil until it was said who it is

	mu     sync.Mutex
	ready  []*deltaResponse // not sent yet, at most one a type
	busy   bool             // somebody sends what becomes ready
	closed bool

	wake  chan struct{} // something is ready, and nobody sends it
	ended chan error    // nothing more is heard
}

func (s *Server) serveDelta(g deltaStream, url string) error {
	d := &delta{
		server: s, grpc: g, url: url, form: compress.Wanted(g.Context()), wake: make(chan struct{}, 1), ended: make(chan error, 1),
	}
	defer d.close()
	go d.hearAll()
	for {
		select {
		case <-s.ended:
			return nil
		case err := <-d.ended:
			return err
		case <-d.wake:
			d.turn.Lock()
			err := d.send()
			d.turn.Unlock()
			if err != nil {
				return err
			}
		}
	}
}

// hearAll hears the client until the stream ends.
func (d *delta) hearAll() {
	var err error
	for err == nil {
		if d.grpc.RecvMsg(&d.heard) != nil {
			break // it has ended
		}
		err = d.hear(&d.heard)
		d.heard.Reset() // what was asked for is kept where it counts
	}
	d.turn.Lock()
	d.endTurn()
	d.turn.Unlock()
	d.ended <- err
}

// hear hears one request. All that was to be sent before is sent first: a client that reads nothing is not heard, either, so that no more is kept for it than
// one answer a type.
func (d *delta) hear(req *discovery.DeltaDiscoveryRequest) error {
	d.turn.Lock()
	defer d.turn.Unlock()
	if err := d.send(); err != nil {
		return err
	}
	if err := d.introduce(req); err != nil {
		return err
	}
	if d.url != "" && req.GetTypeUrl() == "" {
		req.TypeUrl = d.url
	}
	if req.GetTypeUrl() == "" {
		return status.Error(codes.InvalidArgument, "xds: a request on an aggregated stream must say its type")
	}
	d.begin()
	if err := d.server.heardDelta(d.st, req); err != nil {
		return err
	}
	return d.send()
}

// introduce lets the stream in, by its first request.
func (d *delta) introduce(req *discovery.DeltaDiscoveryRequest) error {
	if d.st != nil {
		return nil
	}
	st, err := d.server.introduced(d.grpc.Context(), req.GetNode(), true)
	if err != nil {
		return err
	}
	st.deliver = d.deliver
	d.mu.Lock()
	closed := d.closed
	if !closed {
		d.st = st
	}
	d.mu.Unlock()
	if closed {
		d.server.gone(st)
		return status.Error(codes.Unavailable, "xds: the stream ended")
	}
	return nil
}

// deliver has an answer sent. It does not wait.
func (d *delta) deliver(r *deltaResponse) {
	d.mu.Lock()
	d.ready = append(d.ready, r)
	busy := d.busy
	d.mu.Unlock()
	if busy {
		return
	}
	select {
	case d.wake <- struct{}{}:
	default: // whoever was woken before sends it
	}
}

// next takes what is sent next; nil when nothing is left, which nobody waits for then.
func (d *delta) next() *deltaResponse {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.ready) == 0 {
		d.busy = false
		return nil
	}
	r := d.ready[0]
	d.ready = slices.Delete(d.ready, 0, 1)
	return r
}

// begin says that what becomes ready from now on will be sent. The turn is held.
func (d *delta) begin() {
	d.mu.Lock()
	d.busy = true
	d.mu.Unlock()
}

// send sends what is ready. The turn is held.
func (d *delta) send() error {
	d.begin()
	for r := d.next(); r != nil; r = d.next() {
		d.nonces++
		r.nonce, r.form = strconv.FormatInt(d.nonces, 10), d.form
		if r.bytes() >= large {
			d.endTurn()
			d.st.turn = d.server.large.acquire(d.st.done)
			r.written = d.st.turn
		}
		d.server.metrics.pushes.WithLabelValues(r.t.URL()).Inc()
		d.st.stats.responded(r.t, r.nonce, r.payload, r.removed)
		if err := d.grpc.SendMsg(r); err != nil {
			return err
		}
	}
	return nil
}

// endTurn gives up the place for large answers. The turn is held.
func (d *delta) endTurn() {
	if d.st != nil {
		d.st.endTurn()
	}
}

// close lets go of all that is kept for the stream, whatever is still being sent on it.
func (d *delta) close() {
	d.mu.Lock()
	d.closed = true
	st := d.st
	d.mu.Unlock()
	if st == nil {
		return
	}
	d.server.gone(st)
	if d.turn.TryLock() { // otherwise who hears gives up its place, since nothing more can be sent
		st.endTurn()
		d.turn.Unlock()
	}
}
