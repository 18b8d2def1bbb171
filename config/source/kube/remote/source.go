package remote

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/kube"
)

// label is what a Secret has that names clusters; Istio's.
const label = "istio/multiCluster=true"

// Own is the source of the own cluster.
type Own interface {
	Findings() []admission.Finding
	Run(ctx context.Context, out func([]config.Change, []admission.Finding)) error
}

// Source reads the own cluster and others.
type Source struct {
	Own
	Client    kubernetes.Interface
	Namespace string // the control plane's
	Name      string // the own cluster's: what a Secret says of it does not count
	Log       *slog.Logger

	mu      sync.Mutex // out is called by one at a time
	out     func([]config.Change, []admission.Finding)
	running map[string]*running // by cluster
	named   sync.RWMutex        // held where running is written, which one goroutine does, and where others read it
	reading sync.WaitGroup
}

// running is one cluster that is read.
type running struct {
	kubeconfig []byte
	source     *kube.Source // nil where the kubeconfig cannot be used
	stop       context.CancelFunc
	stopped    chan struct{}
	known      map[config.Key]bool // what was handed on of it
}

// Reading says of each cluster that a Secret names whether it is read: all that counts of it came, and nothing is known to hinder what comes next.
func (s *Source) Reading() map[string]bool {
	s.named.RLock()
	defer s.named.RUnlock()
	out := make(map[string]bool, len(s.running))
	for cluster, r := range s.running {
		out[cluster] = r.there()
	}
	return out
}

func (r *running) there() bool {
	if r.source == nil {
		return false
	}
	select {
	case <-r.source.Synced():
		return !slices.ContainsFunc(r.source.Findings(), func(f admission.Finding) bool { return f.Key.Name == "" && f.Severity == admission.Error })
	default:
		return false
	}
}

// Run is the own source's, with what others say in between.
func (s *Source) Run(ctx context.Context, out func([]config.Change, []admission.Finding)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.reading.Wait()
	defer cancel()
	s.out = out
	s.set(func() { s.running = map[string]*running{} })
	first := sync.OnceFunc(func() { s.reading.Go(func() { s.watch(ctx) }) })
	return s.Own.Run(ctx, func(changes []config.Change, findings []admission.Finding) {
		s.mu.Lock()
		out(changes, findings)
		s.mu.Unlock()
		first()
	})
}

// watch follows the Secrets.
func (s *Source) watch(ctx context.Context) {
	factory := informers.NewSharedInformerFactoryWithOptions(s.Client, 0, informers.WithNamespace(s.Namespace), informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = label }))
	informer := factory.Core().V1().Secrets()
	wake := make(chan struct{}, 1)
	note := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { note() }, UpdateFunc: func(any, any) { note() }, DeleteFunc: func(any) { note() },
	})
	if err != nil {
		s.Log.Error("Secrets of other clusters are not read", "error", err)
		return
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return
	}
	for {
		var secrets []*corev1.Secret
		for _, o := range informer.Informer().GetStore().List() {
			secrets = append(secrets, o.(*corev1.Secret))
		}
		s.follow(ctx, named(secrets))
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
	}
}

// named gives the kubeconfig of each cluster. Of Secrets that name the same one the first by name counts.
func named(secrets []*corev1.Secret) map[string][]byte {
	slices.SortFunc(secrets, func(a, b *corev1.Secret) int { return bytes.Compare([]byte(b.Name), []byte(a.Name)) })
	out := map[string][]byte{}
	for _, secret := range secrets {
		maps.Copy(out, secret.Data)
	}
	return out
}

// follow begins to read clusters that are new, or are reached in another way, and forgets those that nobody names.
func (s *Source) follow(ctx context.Context, wanted map[string][]byte) {
	for cluster, r := range s.running {
		if want, there := wanted[cluster]; !there || !bytes.Equal(want, r.kubeconfig) {
			r.stop()
			<-r.stopped
			if !there {
				s.forget(cluster, r)
			}
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(wanted)) {
		was := s.running[cluster]
		if cluster == s.Name || was != nil && bytes.Equal(was.kubeconfig, wanted[cluster]) {
			continue
		}
		r := &running{kubeconfig: wanted[cluster], stopped: make(chan struct{}), known: map[config.Key]bool{}}
		if was != nil {
			r.known = was.known // what is gone is told with the first batch
		}
		s.read(ctx, cluster, r)
		s.set(func() { s.running[cluster] = r })
	}
}

// read reads a cluster until it is stopped.
func (s *Source) read(ctx context.Context, cluster string, r *running) {
	ctx, r.stop = context.WithCancel(ctx)
	access, err := Access(r.kubeconfig)
	if err != nil {
		s.Log.Error("cluster is not read: its kubeconfig, in a Secret with the label "+label+", cannot be used", "cluster", cluster, "error", err)
		close(r.stopped)
		return
	}
	r.source = kube.NewRemote(cluster, access, kube.Options{Logger: s.Log.With("cluster", cluster), Patience: patience})
	s.reading.Go(func() {
		defer close(r.stopped)
		first := true
		err := r.source.Run(ctx, func(changes []config.Change, _ []admission.Finding) {
			if first {
				changes = append(changes, r.gone(changes)...)
				first = false
				s.Log.Info("cluster is read", "cluster", cluster, "objects", len(changes))
			}
			s.hand(r, changes)
		})
		if err != nil {
			s.Log.Error("cluster is not read", "cluster", cluster, "error", err)
		}
	})
}

// patience is how long a cluster's first batch waits for kinds that may not be listed there.
const patience = 10 * time.Second

// hand gives changes on, and notes what there is.
func (s *Source) hand(r *running, changes []config.Change) {
	for _, c := range changes {
		if c.Object == nil {
			delete(r.known, c.Key)
		} else {
			r.known[c.Key] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out(changes, nil)
}

// gone are removals of what was known and is not among all that there is.
func (r *running) gone(all []config.Change) (out []config.Change) {
	there := map[config.Key]bool{}
	for _, c := range all {
		there[c.Key] = true
	}
	for key := range r.known {
		if !there[key] {
			out = append(out, config.Change{Key: key})
		}
	}
	slices.SortFunc(out, func(a, b config.Change) int { return a.Key.Compare(b.Key) })
	return out
}

// forget removes all that is known of a cluster.
func (s *Source) forget(cluster string, r *running) {
	s.set(func() { delete(s.running, cluster) })
	s.hand(r, r.gone(nil))
	s.Log.Info("cluster is forgotten: no Secret names it any more", "cluster", cluster)
}

// set changes what is running.
func (s *Source) set(change func()) {
	s.named.Lock()
	defer s.named.Unlock()
	change()
}
