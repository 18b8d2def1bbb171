package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/sallyport/sallyport/config/source/kube/clientlog"
)

// LeaseName is the Lease that replicas compete for.
const LeaseName = "sallyport-leader"

// Options say who competes for which Lease.
type Options struct {
	Namespace string // of the Lease: the control plane's
	Identity  string // unique among the replicas: the pod's name
	Name      string // of the Lease: sallyport-leader
	Logger    *slog.Logger
	// LeaseDuration is how long a leader that vanished is waited for: 15 s. RenewDeadline is when one that cannot
	// reach the API server gives up: 10 s. RetryPeriod is the time between tries: 2 s.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Job is done while leading. It ends when ctx does; one that ends before is begun again after a pause.
type Job struct {
	Name string
	Run  func(ctx context.Context) error
}

// Election is one replica's part.
type Election struct {
	options Options
	client  coordination.CoordinationV1Interface
	jobs    []Job

	mu      sync.Mutex
	leader  string
	leading bool
}

// New makes an election that takes no part until it is run.
func New(config *rest.Config, o Options, jobs ...Job) (*Election, error) {
	o.Name = cmp.Or(o.Name, LeaseName)
	o.LeaseDuration = cmp.Or(o.LeaseDuration, 15*time.Second)
	o.RenewDeadline = cmp.Or(o.RenewDeadline, 10*time.Second)
	o.RetryPeriod = cmp.Or(o.RetryPeriod, 2*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Namespace == "" || o.Identity == "" {
		return nil, errors.New("leader election needs the control plane's namespace and a name of this replica: set POD_NAMESPACE and POD_NAME")
	}
	config = rest.CopyConfig(config)
	config.Timeout = o.RenewDeadline / 2
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("access to the API server at %s: %w", config.Host, err)
	}
	return &Election{options: o, client: client, jobs: jobs}, nil
}

// Leader is the identity of the replica that leads, as far as this one knows; "" when it knows none.
func (e *Election) Leader() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leader
}

// Leading says whether this replica's jobs run.
func (e *Election) Leading() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leading
}

// Run competes until ctx ends, which is no error. The Lease is given up when the jobs have ended, so that another
// replica need not wait for it to expire.
func (e *Election) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := e.term(ctx); err != nil {
			return err
		}
		pause(ctx, e.options.RetryPeriod)
	}
	return nil
}

// term competes, leads, and returns when the lead is lost or ctx has ended.
func (e *Election) term(ctx context.Context) error {
	held := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: e.options.Namespace, Name: e.options.Name}, Client: e.client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.options.Identity},
		},
		LeaseDuration: e.options.LeaseDuration, RenewDeadline: e.options.RenewDeadline, RetryPeriod: e.options.RetryPeriod,
		ReleaseOnCancel: true, Name: e.options.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(lease context.Context) { held <- lease },
			OnStoppedLeading: func() {},
			OnNewLeader:      e.follow,
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	// The Lease has a context of its own: it is given up when the jobs have ended, not when ctx does.
	compete, resign := context.WithCancel(clientlog.Context(context.WithoutCancel(ctx), e.options.Logger))
	defer resign()
	over := make(chan struct{})
	go func() {
		defer close(over)
		elector.Run(compete)
	}()
	select {
	case lease := <-held:
		e.lead(ctx, lease)
	case <-over:
	case <-ctx.Done():
	}
	resign()
	<-over
	return nil
}

// lead runs the jobs until the Lease is lost or ctx ends.
func (e *Election) lead(ctx, held context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(held, cancel)()
	e.set(true)
	e.options.Logger.Info("leading", "lease", e.options.Namespace+"/"+e.options.Name, "identity", e.options.Identity)
	var jobs sync.WaitGroup
	for _, job := range e.jobs {
		jobs.Go(func() { e.keep(ctx, job) })
	}
	<-ctx.Done()
	jobs.Wait()
	e.set(false)
	e.options.Logger.Info("no longer leading", "lease", e.options.Namespace+"/"+e.options.Name, "identity", e.options.Identity)
}

// keep runs a job, and again when it fails, until ctx ends.
func (e *Election) keep(ctx context.Context, job Job) {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 6, Cap: 30 * time.Second}
	for ctx.Err() == nil {
		err := job.Run(ctx)
		if ctx.Err() != nil {
			return
		}
		e.options.Logger.Error("a leader's job ended, beginning it again", "job", job.Name, "error", err)
		pause(ctx, backoff.Step())
	}
}

func (e *Election) set(leading bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leading = leading
}

func (e *Election) follow(identity string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leader = identity
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
