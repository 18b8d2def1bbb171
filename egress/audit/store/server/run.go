package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/sallyport/sallyport/egress/audit/actions"
	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/pair"
	"github.com/sallyport/sallyport/egress/audit/presence"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/store"
	"github.com/sallyport/sallyport/egress/console"
	"github.com/sallyport/sallyport/egress/console/login"
	"github.com/sallyport/sallyport/egress/detect"
	"github.com/sallyport/sallyport/egress/suggest"
)

// Options of the audit server.
type Options struct {
	Data        string        // the data folder: the store is in DATA/audit, the socket DATA/audit.sock
	ConsoleAddr string        // host:port of the web page; empty: none
	Retention   time.Duration // see store.Options
	MemoryLimit string        // see store.Options
	Logger      *slog.Logger
	Ports       []Port // beside the socket
	Pair        *Pair  // the other server, with which this one keeps its log alike; nil for none
	// Config and Found are the console's, see console.Options.
	Config func(context.Context) (*console.Config, error)
	Found  func() *detect.Report
	// Presence has the proxies that controllers say are connected; nil for one of the server's own.
	Presence *presence.Register
	// Door is the console for those who log in; nil for none.
	Door *LoginListener
	// Beside, if set, runs beside the server until ctx ends. An error of it ends the server.
	Beside func(ctx context.Context, s *store.Store) error
	Held   []string // see store.Options
	// Scratch is the name of a folder in the store's, for store.Options.
	Scratch string

	// Ready, if set, is called once everything listens; console is the page's address, empty without one.
	Ready func(socket, console string)
}

// Port is a further way in. Whoever gives it sees to who may come in by it.
type Port struct {
	// Listen opens it, once there is something to answer.
	Listen    func() (net.Listener, error)
	Options   []grpc.ServerOption // credentials and interceptors
	Records   bool                // batches are taken, and who hands them in may ask what was asked for lately
	Questions bool                // questions are answered, and commands may tell what they do
}

// Pair is the other one of two servers. Whoever gives it sees to it that nobody else comes in by Listener.
type Pair struct {
	pair.Options
	Listener net.Listener
	Server   []grpc.ServerOption // credentials and interceptors
	Linked   func(*pair.Link)    // called before anything is served
}

// tellWithin is how long the other server may take to be told which proxies are connected.
const tellWithin = 5 * time.Second

// tell tells the other server what a controller told this one: each controller is connected to one of the two. One that is away is told the next time.
func (p *Pair) tell(ctx context.Context, controller string, proxies []presence.Proxy) {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	_ = presence.Tell(ctx, p.Conn, controller, proxies)
}

// LoginListener is a way to the console's pages for those who log in. Its connections are encrypted.
type LoginListener struct {
	Listener net.Listener
	Login    login.Options
	// Apply is console.Options' of that name.
	Apply func(ctx context.Context, token string, changes []suggest.Change) (console.Prepared, error)
}

// grace is how long streams may take to end by themselves.
const grace = 3 * time.Second

// Run serves until ctx ends, then finishes what was handed in and closes the store; that is nil. It fails when another
// process serves the folder, when an address is taken, and when DuckDB gives the database up (start it again then).
func Run(ctx context.Context, o Options) (err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Presence == nil {
		o.Presence = presence.New(nil)
	}
	dir := filepath.Join(o.Data, query.StoreName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("audit server: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("audit server: %w", err)
	}
	lock, err := lockStore(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	s, err := openStore(ctx, dir, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if o.Pair == nil {
		return serve(ctx, s, dir, o, nil)
	}
	return paired(ctx, s, o, func(ctx context.Context, l *pair.Link) error { return serve(ctx, s, dir, o, l) })
}

// paired keeps the log like the other server's while serve runs, which it begins when all of it is here. Records that are handed in until the end
// are brought there.
func paired(ctx context.Context, s *store.Store, o Options, serve func(context.Context, *pair.Link) error) error {
	o.Pair.Options.Logger = o.Logger
	link, err := pair.New(ctx, s, o.Pair.Options)
	if err != nil {
		return err
	}
	if o.Pair.Linked != nil {
		o.Pair.Linked(link)
	}
	rpc := newServer(o.Pair.Server)
	link.Register(rpc)
	presence.NewService(o.Presence, nil).Register(rpc)
	group, ctx := errgroup.WithContext(ctx)
	linked, unlink := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error { return rpc.Serve(o.Pair.Listener) })
	group.Go(func() error { return link.Run(linked) })
	group.Go(func() error {
		defer stop(rpc)
		defer unlink()
		err := link.Whole(ctx)
		if err == nil {
			err = serve(ctx, link)
		}
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil
		}
		return err
	})
	return group.Wait()
}

// openStore waits a little for a reader that has the file open just now.
func openStore(ctx context.Context, dir string, o Options) (*store.Store, error) {
	options := store.Options{Retention: o.Retention, MemoryLimit: o.MemoryLimit, Logger: o.Logger, Held: o.Held}
	if o.Scratch != "" {
		var err error
		if options.Scratch, err = filepath.Abs(filepath.Join(dir, o.Scratch)); err != nil {
			return nil, fmt.Errorf("audit server: %w", err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		s, err := store.Open(ctx, dir, options)
		if err == nil || time.Now().After(deadline) || !store.IsLocked(err) {
			return s, err
		}
		o.Logger.Info("audit server: another process reads the database, waiting for it", "err", err)
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func serve(ctx context.Context, s *store.Store, dir string, o Options, link *pair.Link) error {
	socket := filepath.Join(o.Data, query.SocketName)
	rpcListener, err := listen(socket, dir)
	if err != nil {
		return err
	}
	defer os.Remove(socket) // before the lock is given back
	ports := append([]Port{{Listen: func() (net.Listener, error) { return rpcListener, nil }, Records: true, Questions: true}}, o.Ports...)
	sink := ingest.Sink(s)
	if link != nil {
		sink = link
	}

	group, ctx := errgroup.WithContext(ctx)
	pages := console.Options{DB: s.DB(), Config: o.Config, Decisions: filepath.Join(o.Data, "review"), Found: o.Found, Connected: o.Presence.Connected, Logger: o.Logger}
	acts := actions.New(sink, time.Now())
	if link != nil {
		pages.Notice = notice(link)
	}
	pages.Act = acts.Add
	consoleAddr := ""
	if o.ConsoleAddr != "" {
		pageListener, err := net.Listen("tcp", o.ConsoleAddr)
		if err != nil {
			return errors.Join(fmt.Errorf("audit server: the console's address: %w", err), rpcListener.Close())
		}
		consoleAddr = pageListener.Addr().String()
		group.Go(func() error { return console.Serve(ctx, pageListener, pages) })
	}
	if o.Door != nil {
		behind := pages
		behind.Login, behind.Apply = &o.Door.Login, o.Door.Apply
		group.Go(func() error { return console.Serve(ctx, o.Door.Listener, behind) })
	}
	if o.Beside != nil {
		group.Go(func() error { return o.Beside(ctx, s) })
	}
	for _, port := range ports {
		rpc := port.server(s, sink, acts, o)
		group.Go(func() error {
			l, err := port.Listen()
			if err != nil {
				return fmt.Errorf("audit server: %w", err)
			}
			return rpc.Serve(l)
		})
		group.Go(func() error {
			<-ctx.Done()
			stop(rpc)
			return nil
		})
	}
	group.Go(func() error {
		select {
		case <-s.Failed():
			return errors.New("audit server: DuckDB gave the database up; start again")
		case <-ctx.Done():
			return nil
		}
	})
	o.Logger.Info("audit server is ready", "socket", socket, "console", consoleAddr)
	if o.Ready != nil {
		o.Ready(socket, consoleAddr)
	}
	return group.Wait()
}

// noticed is for how long the other server may be silent before readers are told.
const noticed = 15 * time.Second

// notice says, while the other server is away, what may be missing here.
func notice(l *pair.Link) func() string {
	return func() string {
		away := l.Away()
		if away < noticed {
			return ""
		}
		heard := "it was never heard of"
		if at := l.Heard(); !at.IsZero() {
			heard = "all that it had at " + at.UTC().Format(time.DateTime) + " UTC is here"
		}
		return fmt.Sprintf("The other audit server, %s, has not answered for %s: %s; what it may have taken in since comes when it is back.", l.Name, away.Round(time.Second), heard)
	}
}

// handshake is how long whoever connects may take until he can call.
const handshake = 10 * time.Second

func newServer(options []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append([]grpc.ServerOption{
		grpc.ConnectionTimeout(handshake),
		grpc.MaxConcurrentStreams(128), // a controller hands in some tens of batches at a time
		grpc.MaxHeaderListSize(64 << 10),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}), // controllers ask whether it is there
	}, options...)...)
}

func (p Port) server(s *store.Store, sink ingest.Sink, acts *actions.Log, o Options) *grpc.Server {
	rpc := newServer(p.Options)
	if p.Records {
		ingest.NewServer(sink, nil, o.Logger).Register(rpc)
		query.NewRecent(s).Register(rpc)
		presence.NewService(o.Presence, o.Pair.tell).Register(rpc)
	}
	if p.Questions {
		presence.NewAnswers(o.Presence).Register(rpc)
		query.NewService(s).Register(rpc)
		query.NewActionsService(acts).Register(rpc)
	}
	return rpc
}

// stop lets batches that are being stored get their acknowledgement; streams that stay open are cut.
func stop(rpc *grpc.Server) {
	timer := time.AfterFunc(grace, rpc.Stop)
	defer timer.Stop()
	rpc.GracefulStop()
}
