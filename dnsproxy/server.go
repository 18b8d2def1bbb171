package dnsproxy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sallyport/sallyport/dnsproxy/cache"
	"github.com/sallyport/sallyport/dnsproxy/follow"
	"github.com/sallyport/sallyport/dnsproxy/limit"
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/dnsproxy/packet"
)

// Server answers questions. Make it with New, then Listen, then Serve; register it as a prometheus.Collector.
type Server struct {
	config   Config
	views    []*view
	table    *Table
	cache    *cache.Cache
	flights  flights
	routes   *routes
	metrics  *metrics
	taken    *takenLog
	origin   time.Time
	staleTTL uint32

	base    context.Context // of the work that outlives a question
	cancel  context.CancelFunc
	slots   *limit.Shares // one for each question that waits
	working sync.WaitGroup

	mu        sync.Mutex
	listeners []*listener
	opened    []*listener    // by Open
	reading   sync.WaitGroup // from those
}

// New makes a server that does not listen yet. Errors name the field of config.
func New(config Config) (*Server, error) {
	config = config.withDefaults()
	if len(config.Views) == 0 || len(config.Views) > math.MaxUint8 {
		return nil, fmt.Errorf("dns: views: %d are configured; between 1 and 255 are needed", len(config.Views))
	}
	s := &Server{
		config: config, table: newTable(), cache: cache.New(config.CacheBytes), metrics: newMetrics(), taken: newTakenLog(config.Log),
		origin: config.Now(), staleTTL: max(seconds(config.StaleTTL), 1), slots: limit.NewShares(config.MaxInFlight),
		flights: flights{running: map[string]*flight{}, room: limit.NewShares(config.MaxUpstream)},
	}
	var err error
	if s.routes, err = newRoutes(config, s.metrics.observe); err != nil {
		return nil, err
	}
	for i, v := range config.Views {
		if v.Name == "" || s.view(v.Name) != nil {
			return nil, fmt.Errorf("dns: views[%d].name %q: must be set and be the only one", i, v.Name)
		}
		w := &view{View: v, id: byte(i), s: s, counts: s.metrics.view(v.Name), policy: &atomic.Pointer[policy]{}}
		if v.Asker != nil {
			w.asker = v.Asker.Key()
		}
		for _, domain := range v.Search {
			if err := (name.Name{Host: domain}).Validate(); err != nil {
				return nil, fmt.Errorf("dns: views[%d].search: %w", i, err)
			}
			w.search = append(w.search, packet.AppendName(nil, domain))
		}
		w.policy.Store(&policy{})
		s.views = append(s.views, w)
	}
	s.base, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Names is the name table. Views with Names hold questions back until its SetReady.
func (s *Server) Names() *Table { return s.table }

// Flush forgets all kept answers: call it when a View.Refuse has changed its mind.
func (s *Server) Flush() { s.cache.Flush() }

// Addr is the first address that the view listens on, after Listen. The zero AddrPort: it does not.
func (s *Server) Addr(view string) netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		if l.view.Name == view {
			return l.addr
		}
	}
	return netip.AddrPort{}
}

func (s *Server) listensOn(addr netip.AddrPort) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		if l.addr == addr || l.addr.Port() == addr.Port() && l.addr.Addr().IsUnspecified() && addr.Addr().IsLoopback() {
			return true
		}
	}
	return false
}

func (s *Server) view(name string) *view {
	for _, v := range s.views {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// now is the time since the server was made, as the cache counts.
func (s *Server) now() time.Duration { return s.config.Now().Sub(s.origin) }

// Listen binds all addresses of all views, or none. Questions are answered once Serve runs.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.listeners) > 0 {
		return errors.New("dns: listens already")
	}
	for _, v := range s.views {
		for _, addr := range v.Listen {
			l, err := bind(v, addr)
			if err != nil {
				s.closeListeners()
				return fmt.Errorf("dns: view %s: listen on %q: %w", v.Name, addr, err)
			}
			s.listeners = append(s.listeners, l)
		}
	}
	return nil
}

func (s *Server) closeListeners() {
	for _, l := range s.listeners {
		l.close()
	}
	s.listeners = nil
}

// Serve answers until ctx ends, then lets the questions in flight end within Config.Grace. It calls Listen if nobody
// has, and can be called once.
func (s *Server) Serve(ctx context.Context) error {
	defer s.cancel()
	if s.idle() {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	listeners := s.listeners
	s.mu.Unlock()
	var reading sync.WaitGroup
	for _, l := range listeners {
		reading.Go(func() { l.serveUDP(s.base) })
		reading.Go(func() { l.serveTCP(s.base) })
	}
	if s.config.ResolvConf != "" {
		reading.Go(func() {
			if err := follow.File(ctx, s.config.ResolvConf, s.useResolvConf); err != nil {
				s.config.Log.Error("resolv.conf is not followed", "error", err)
			}
		})
	}
	<-ctx.Done()
	s.mu.Lock()
	listeners = append(slices.Clip(listeners), s.opened...)
	s.listeners = listeners
	s.mu.Unlock()
	for _, l := range listeners {
		l.stop()
	}
	reading.Wait()
	s.reading.Wait()
	s.drain()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeListeners()
	return nil
}

func (s *Server) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.listeners) == 0
}

// drain waits for what is under way, and ends it when Grace is over.
func (s *Server) drain() {
	impatient := time.AfterFunc(s.config.Grace, s.cancel)
	defer impatient.Stop()
	s.working.Wait()
	s.cancel()
	s.flights.wg.Wait()
	s.routes.close()
}
