package secrets

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
)

// LookInterval is how often the --ca-root file and the calendar are looked at. Mounted volumes are swapped by
// symbolic links, which watches on files miss; timers stand still while a machine sleeps.
const LookInterval = 5 * time.Second

// Options say whose certificate to keep, and where.
type Options struct {
	// Folder is the state folder (RUN/state/identity); its parent is made when missing.
	Folder string
	// CARootFile holds the roots that the controller's certificate is verified against (--ca-root).
	CARootFile string
	// TokenFile holds the workload's token (--token). It is read for every call: projected tokens are replaced. Empty or
	// missing is right only where a valid certificate is stored, which is not renewed then.
	TokenFile string
	// Namespace and ServiceAccount are the agent's own; certificates of another account are refused. Empty: any.
	Namespace, ServiceAccount string
	// As is the SPIFFE id to ask for where it is not the token's own (see Pods).
	As string
	// TTL is the lifetime to ask for, in whole seconds; 0 leaves it to the controller.
	TTL     time.Duration
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Random is the source of jitter, in [0,1); nil is math/rand.
	Random func() float64
}

// Workload keeps one workload's certificate. Its methods may be called at the same time.
type Workload struct {
	options Options
	board   *board
	given   *rootFile
	save    func(folder string, c *certificate, roots []*x509.Certificate) error
	ready   chan struct{} // closed at the first valid certificate
	once    sync.Once     // closes ready
	metrics metrics
	beside  *Workload          // whose look at the roots it takes, and whose copies of them; nil for its own
	shown   func(*certificate) // is told of each certificate, in order, if there is anybody
}

// New reads the roots and what an earlier run stored. A stored certificate that is still valid is served at once,
// whether or not the controller can be reached.
func New(o Options) (*Workload, error) {
	if o.Folder == "" || o.CARootFile == "" {
		return nil, errors.New("workload certificate: the state folder and the file with the controller's roots are required")
	}
	w := &Workload{options: o, given: &rootFile{path: o.CARootFile}}
	w.metrics = newMetrics(o.Metrics, w)
	if err := w.open(); err != nil {
		return nil, err
	}
	return w, nil
}

// open completes it.
func (w *Workload) open() error {
	o := &w.options
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Random == nil {
		o.Random = defaultRandom
	}
	w.board, w.save, w.ready = newBoard(), save, make(chan struct{})
	m := w.restore()
	given, err := w.readRoots()
	if err != nil {
		if m.certificate == nil {
			return err
		}
		o.Log.Error("going on with the roots of the last run", "error", err)
	}
	m.given, m.issued = given, w.known(m.issued)
	w.publish(func(material) material { return *m })
	return nil
}

// restore returns the stored material, as far as it can be used.
func (w *Workload) restore() *material {
	m := &material{}
	if err := sweep(w.options.Folder); err != nil {
		w.options.Log.Warn("what an earlier run left behind cannot be removed", "error", err)
	}
	c, issued, err := load(w.options.Folder)
	switch {
	case errors.Is(err, errNoState):
		return m
	case err != nil:
		w.options.Log.Warn("the stored certificate cannot be read, asking for a new one", "error", err)
		return m
	}
	if err := c.checkAccount(w.options.Namespace, w.options.ServiceAccount); err != nil {
		w.options.Log.Warn("the stored certificate is somebody else's, asking for a new one", "error", err)
		return m
	}
	m.issued = issued
	if c.expired(time.Now()) {
		w.options.Log.Warn("the stored certificate has expired, asking for a new one", "expired", c.leaf.NotAfter)
		return m
	}
	m.certificate = c
	w.options.Log.Info("serving the stored certificate", "identity", c.spiffeID(), "expires", c.leaf.NotAfter)
	return m
}

// publish shows the changed material to Envoy and to the agent's own connection.
func (w *Workload) publish(change func(material) material) (changed bool) {
	changed = w.board.update(change)
	if m := w.board.read(); m.certificate != nil {
		if changed && w.shown != nil {
			w.shown(m.certificate)
		}
		w.once.Do(func() { close(w.ready) })
	}
	return changed
}

// Ready is closed once there is a valid certificate to serve.
func (w *Workload) Ready() <-chan struct{} { return w.ready }

// Status says what is held now; Expires is zero before the first certificate.
type Status struct {
	Identity string // SPIFFE id
	Expires  time.Time
	Expired  bool
}

// Status returns the state of the certificate.
func (w *Workload) Status() Status {
	m := w.board.read()
	if m.certificate == nil {
		return Status{}
	}
	return Status{
		Identity: m.certificate.spiffeID(),
		Expires:  m.certificate.leaf.NotAfter,
		Expired:  m.certificate.expired(time.Now()),
	}
}

// Run obtains and renews the certificate over conn until ctx ends; what was obtained is stored when it returns. The connection is made with DialOptions.
func (w *Workload) Run(ctx context.Context, conn grpc.ClientConnInterface) {
	s := newStoring(w)
	defer s.stop()
	r := newRenewal(w, conn, s)
	renew := time.NewTimer(r.first(time.Now()))
	defer renew.Stop()
	expiry := time.NewTimer(w.untilExpiry())
	defer expiry.Stop()
	look := time.NewTicker(LookInterval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			w.rereadRoots()
			if r.overdue(time.Now()) {
				renew.Reset(0)
			}
		case <-expiry.C:
			w.reportExpiry()
		case <-renew.C:
			next := apart(func() time.Duration { return r.attempt(ctx) })
			if ctx.Err() != nil {
				return
			}
			renew.Reset(next)
			expiry.Reset(w.untilExpiry())
		}
	}
}

// apart does something in a goroutine of its own, and waits for it: what that needs of a stack is given back with its end, where one that lives on, as one for each
// of a node's pods does, would keep it.
func apart[T any](do func() T) T {
	done := make(chan T, 1)
	go func() { done <- do() }()
	return <-done
}

// noExpiry stands for "there is nothing that could expire".
const noExpiry = 365 * 24 * time.Hour

func (w *Workload) untilExpiry() time.Duration {
	m := w.board.read()
	if m.certificate == nil {
		return noExpiry
	}
	if left := time.Until(m.certificate.leaf.NotAfter); left > 0 {
		return left
	}
	return noExpiry // reported when it happened
}

func (w *Workload) reportExpiry() {
	w.options.Log.Error("the workload's certificate has EXPIRED and could not be renewed: peers refuse its connections",
		"identity", w.Status().Identity, "expired", w.Status().Expires)
}
