package deploy

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"github.com/sallyport/sallyport/config/source/kube/clientlog"
)

// FieldManager is whose the applied fields are.
const FieldManager = "sallyport-gateways"

// Object is one that a Gateway consists of, with its kind: a ServiceAccount, a Deployment, a Service, a HorizontalPodAutoscaler or a PodDisruptionBudget.
type Object interface {
	metav1.Object
	runtime.Object
}

// State is what became of a Gateway in the cluster.
type State struct {
	Addresses []gatewayv1.GatewayStatusAddress
	Problem   string // why it is not deployed as it says; "" when it is
	// BadParameters says that the Problem is with its parameters, or with its class's.
	BadParameters bool
}

// Options of a Keeper.
type Options struct {
	Logger *slog.Logger
	// Controller is the controllerName of GatewayClasses whose Gateways are kept, and Classes are those that are made where they are missing.
	Controller gatewayv1.GatewayController
	Classes    []string
	// Namespace is the control plane's, in which the parameters of classes are.
	Namespace string
	// ClassDefaults has a ConfigMap there count for the class that its label names (defaultsLabel), which takes the right to list all ConfigMaps there.
	ClassDefaults bool
	// Render says what objects a Gateway consists of, with the ListenerSets that it lets in, in order, and with the parameters of its class and its own, in
	// this order. Its error is BadParameters where they are at fault.
	Render func(g *gatewayv1.Gateway, sets []*gatewayv1.ListenerSet, parameters []Parameters) ([]Object, error)
	// Check says what of a class's parameters can be no Gateway's; nil: nothing is.
	Check func(Parameters) error
	// Changed is told of each Gateway's State when it is another one than before, and nil when the Gateway is gone or not ours. It
	// is called from several goroutines.
	Changed func(gateway types.NamespacedName, s *State)
	// ClassChanged is told what is wrong with the parameters of one of our classes, when that is something else than before; "" for nothing.
	ClassChanged func(class, problem string)
	// RetryMin and RetryMax are the pauses after the first and after many failures: 250 ms, 30 s.
	RetryMin, RetryMax time.Duration
	// AskAgain is how often it is asked whether the cluster has the API's CRDs: 10 s.
	AskAgain time.Duration
}

// Keeper keeps Gateways' objects.
type Keeper struct {
	options Options
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	gateway gatewayclient.Interface

	mu      sync.Mutex
	known   map[types.NamespacedName]State
	classes map[string]string // what is wrong with their parameters
}

type queue = workqueue.TypedRateLimitingInterface[types.NamespacedName]

// New makes a keeper that asks for nothing until it is run.
func New(server *rest.Config, o Options) (*Keeper, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.RetryMin == 0 {
		o.RetryMin, o.RetryMax = 250*time.Millisecond, 30*time.Second
	}
	if o.AskAgain == 0 {
		o.AskAgain = 10 * time.Second
	}
	config := rest.CopyConfig(server)
	config.QPS, config.Burst = 50, 100
	k := &Keeper{options: o, known: map[types.NamespacedName]State{}, classes: map[string]string{}}
	var err error
	if k.kube, err = kubernetes.NewForConfig(config); err == nil {
		if k.dynamic, err = dynamic.NewForConfig(config); err == nil {
			k.gateway, err = gatewayclient.NewForConfig(config)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("access to the API server at %s: %w", server.Host, err)
	}
	return k, nil
}

// workers is how many Gateways are looked at at once.
const workers = 4

// Run keeps Gateways' objects until ctx ends, which is no error.
func (k *Keeper) Run(ctx context.Context) error {
	if !k.awaitAPI(ctx) {
		return nil
	}
	q := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](k.options.RetryMin, k.options.RetryMax))
	logged := clientlog.Context(ctx, k.options.Logger)
	c, err := k.watch(logged, q)
	if err != nil {
		return err
	}
	defer c.stop()
	if !c.synced(ctx) {
		return nil
	}
	if err := k.keepClasses(ctx, c); err != nil {
		return err
	}
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				if ctx.Err() == nil {
					k.work(ctx, c, q, key)
				}
				q.Done(key)
			}
		})
	}
	<-ctx.Done()
	q.ShutDown()
	work.Wait()
	return nil
}

// work looks at one Gateway, and again later when that failed; or, where the key has no namespace, at a class.
func (k *Keeper) work(ctx context.Context, c *caches, q queue, key types.NamespacedName) {
	if key.Namespace == "" {
		k.keepClass(c, q, key.Name)
		return
	}
	err := k.keep(ctx, c, key)
	if err == nil || ctx.Err() != nil {
		q.Forget(key)
		return
	}
	level := k.options.Logger.Debug
	if q.NumRequeues(key) == 0 {
		level = k.options.Logger.Warn
	}
	level("cannot keep the objects of a Gateway, trying again", "gateway", key.String(), "error", err)
	q.AddRateLimited(key)
}

// awaitAPI waits until the cluster has the API's CRDs; it returns false when ctx ended.
func (k *Keeper) awaitAPI(ctx context.Context) bool {
	ask := time.NewTicker(k.options.AskAgain)
	defer ask.Stop()
	for {
		if k.served() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ask.C:
		}
	}
}

// served says whether the API server serves all kinds that are read.
func (k *Keeper) served() bool {
	list, err := k.kube.Discovery().ServerResourcesForGroupVersion(gatewayv1.GroupVersion.String())
	if err != nil {
		return false
	}
	missing := map[string]bool{"gateways": true, "gatewayclasses": true, "listenersets": true}
	for _, r := range list.APIResources {
		delete(missing, r.Name)
	}
	return len(missing) == 0
}

// tell notes the State of a Gateway, nil for none.
func (k *Keeper) tell(key types.NamespacedName, s *State) {
	k.mu.Lock()
	was, had := k.known[key]
	same := s == nil && !had || s != nil && had && equal(was, *s)
	if s == nil {
		delete(k.known, key)
	} else {
		k.known[key] = *s
	}
	k.mu.Unlock()
	if !same && k.options.Changed != nil {
		k.options.Changed(key, s)
	}
}
