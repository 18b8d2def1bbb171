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
// other one sends what comes by itself, and is there only while there is something. Whoever makes an answer waits for neither. The one that gRPC began
// it with waits for its end.
//
// A goroutine keeps the stack that it once needed, of which the collector takes half at a time, and no more than down to four times of what it needs while it
// waits. So none waits that has done much: the first one does nothing else, and the one that hears leaves what follows to a new one.
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
	comes  bool             // somebody is about to
	closed bool

	ended chan error // nothing more is heard, or can be sent
}

func (s *Server) serveDelta(g deltaStream, url string) error {
	d := &delta{server: s, grpc: g, url: url, form: compress.Wanted(g.Context()), ended: make(chan error, 1)}
	defer d.close()
	go d.hearAll()
	select {
	case <-s.ended:
		return nil
	case err := <-d.ended:
		return err
	}
}

// hearAll hears the client until the stream ends, or leaves that to a new goroutine.
func (d *delta) hearAll() {
	for d.grpc.RecvMsg(&d.heard) == nil {
		much, err := d.hear(&d.heard)
		d.heard.Reset() // what was asked for is kept where it counts
		switch {
		case err != nil:
			d.end(err)
			return
		case much:
			go d.hearAll()
			return
		}
	}
	d.end(nil)
}

// acknowledges says whether a request asks for nothing.
func acknowledges(r *discovery.DeltaDiscoveryRequest) bool {
	return r.Node == nil && len(r.ResourceNamesSubscribe) == 0 && len(r.ResourceNamesUnsubscribe) == 0 && len(r.InitialResourceVersions) == 0
}

// end ends the stream.
func (d *delta) end(err error) {
	d.turn.Lock()
	d.endTurn()
	d.turn.Unlock()
	select {
	case d.ended <- err:
	default: // it ends already
	}
}

// hear hears one request. All that was to be sent before is sent first: a client that reads nothing is not heard, either, so that no more is kept for it than
// one answer a type. It says whether that took much: more than to note that something was acknowledged.
func (d *delta) hear(req *discovery.DeltaDiscoveryRequest) (much bool, err error) {
	d.turn.Lock()
	defer d.turn.Unlock()
	sent := d.nonces
	if err := d.send(); err != nil {
		return true, err
	}
	if err := d.introduce(req); err != nil {
		return true, err
	}
	if d.url != "" && req.GetTypeUrl() == "" {
		req.TypeUrl = d.url
	}
	if req.GetTypeUrl() == "" {
		return true, status.Error(codes.InvalidArgument, "xds: a request on an aggregated stream must say its type")
	}
	d.begin()
	if err := d.server.heardDelta(d.st, req); err != nil {
		return true, err
	}
	err = d.send()
	return !acknowledges(req) || d.nonces != sent, err
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
	defer d.mu.Unlock()
	d.ready = append(d.ready, r)
	if !d.busy && !d.comes {
		d.comes = true
		go d.sendReady()
	}
}

// sendReady sends what came by itself.
func (d *delta) sendReady() {
	d.turn.Lock()
	d.mu.Lock()
	d.comes = false
	d.mu.Unlock()
	err := d.send()
	d.turn.Unlock()
	if err != nil {
		d.end(err)
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
	if d.turn.TryLock() { // otherwise who has it gives up its place in the end, since nothing more can be sent
		st.endTurn()
		d.turn.Unlock()
	}
}
