package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/sallyport/sallyport/e2e/world"
)

// fleet is all clients together.
type fleet struct {
	plain      bool // they are clients that read no compressed messages
	policed    bool // sidecars ask for what their listeners' filters do, too, as egress gateways do always
	proxies    []*proxy
	gateway    *proxy
	references references
	messages   atomic.Int64           // that anyone received
	awaited    atomic.Pointer[string] // the host whose arrival is noted
	meant      []*proxy               // who is to hear of it

	mu     sync.Mutex
	broken error // the first stream that ended by itself
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// assemble connects the egress gateway and that many others, all at once, and waits until each has everything. Unless they are plain,
// they say what agents say: that they read compressed messages.
func assemble(ctx context.Context, addr string, sidecars int, s shape, plain bool) (*fleet, error) {
	ctx, stop := context.WithCancel(ctx)
	f := &fleet{plain: plain, policed: s.policed, stop: stop, proxies: make([]*proxy, sidecars)}
	joins := make(chan error)
	join := func(n *core.Node, to **proxy) {
		p, err := f.connect(ctx, addr, n)
		if err == nil {
			*to = p
			f.done.Go(func() { f.lost(ctx, n, p.run()) })
		}
		joins <- err
	}
	go join(gateway(), &f.gateway)
	for i := range f.proxies {
		go join(s.node(i), &f.proxies[i])
	}
	var errs []error
	for range sidecars + 1 {
		errs = append(errs, <-joins)
	}
	if err := errors.Join(errs...); err != nil {
		f.close()
		return nil, err
	}
	for _, p := range f.everybody() {
		if err := f.wait(ctx, p); err != nil {
			f.close()
			return nil, err
		}
	}
	return f, nil
}

func (f *fleet) everybody() []*proxy { return append(slices.Clone(f.proxies), f.gateway) }

// wait waits until a proxy has everything, for as long as anybody receives anything: a large mesh takes its time on a machine that is busy.
func (f *fleet) wait(ctx context.Context, p *proxy) error {
	for seen := f.messages.Load(); ; seen = f.messages.Load() {
		select {
		case <-p.synced:
			return nil
		case <-ctx.Done():
			return errors.Join(ctx.Err(), f.failure())
		case <-time.After(patience):
		}
		if err := f.failure(); err != nil || f.messages.Load() == seen {
			return errors.Join(fmt.Errorf("%s is not programmed, and nobody received anything for %s", p.node.GetId(), patience), err)
		}
	}
}

// lost notes a stream that ended although nobody ended it.
func (f *fleet) lost(ctx context.Context, n *core.Node, err error) {
	if ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken == nil {
		f.broken = fmt.Errorf("the stream of %s ended: %w", n.GetId(), err)
	}
}

func (f *fleet) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken
}

func (f *fleet) close() {
	f.stop()
	f.done.Wait()
}

// expect makes the fleet note when the host is mentioned, to those that are meant; nil means all but the gateway.
func (f *fleet) expect(host string, whom func(*core.Node) bool) {
	f.meant = f.proxies
	if whom != nil {
		f.meant = slices.DeleteFunc(slices.Clone(f.proxies), func(p *proxy) bool { return !whom(p.node) })
	}
	for _, p := range f.everybody() {
		p.arrived.Store(0)
	}
	f.awaited.Store(&host)
}

// quiet is how long nobody must have received anything for a change to count as over.
const quiet = 100 * time.Millisecond

// settle waits until each that is meant has heard of the host, and of nothing more for a while. It gives the time when
// the last of them heard of it last.
func (f *fleet) settle(ctx context.Context) (time.Time, error) {
	seen, since := f.messages.Load(), time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := world.Poll(ctx, quiet/10, func() error {
		if err := f.failure(); err != nil {
			cancel()
			return err
		}
		if now := f.messages.Load(); now != seen {
			seen, since = now, time.Now()
		}
		for _, p := range f.meant {
			if p.arrived.Load() == 0 {
				return fmt.Errorf("%s has not heard of %s", p.node.GetId(), *f.awaited.Load())
			}
		}
		if time.Since(since) < quiet {
			return errors.New("responses go on coming")
		}
		return nil
	})
	var last int64
	for _, p := range f.meant {
		last = max(last, p.arrived.Load())
	}
	return time.Unix(0, last), err
}

// received sums up the bytes of all, and gives those of the sidecar that received most.
func (f *fleet) received() (total, most int64) {
	for _, p := range f.proxies {
		n := p.bytes.Load()
		total, most = total+n, max(most, n)
	}
	return total + f.gateway.bytes.Load(), most
}

// told is how many received anything since takeBytes was last called.
func (f *fleet) told() (n int) {
	for _, p := range f.everybody() {
		if p.bytes.Load() > 0 {
			n++
		}
	}
	return n
}

// takeBytes gives what the sidecar that received most, and the gateway, received since it was last called.
func (f *fleet) takeBytes() (sidecar, gateway int64) {
	for _, p := range f.proxies {
		sidecar = max(sidecar, p.bytes.Swap(0))
	}
	return sidecar, f.gateway.bytes.Swap(0)
}

// resettled waits until every sidecar has received something, and nobody anything more for a while.
func (f *fleet) resettled(ctx context.Context) error {
	f.takeBytes()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	seen, since := f.messages.Load(), time.Now()
	return world.Poll(ctx, quiet/10, func() error {
		if now := f.messages.Load(); now != seen {
			seen, since = now, time.Now()
		}
		for _, p := range f.proxies {
			if p.bytes.Load() == 0 {
				return fmt.Errorf("%s has received nothing", p.node.GetId())
			}
		}
		if time.Since(since) < 5*quiet {
			return errors.New("responses go on coming")
		}
		return nil
	})
}
