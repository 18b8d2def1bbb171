package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config/source/kube"
	"github.com/sallyport/sallyport/config/source/kube/deploy"
	"github.com/sallyport/sallyport/config/source/kube/leader"
	"github.com/sallyport/sallyport/config/source/kube/remote"
	"github.com/sallyport/sallyport/config/source/kube/status"
	"github.com/sallyport/sallyport/sidecar/inject"
	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/kubeca"
	"github.com/sallyport/sallyport/xds/identity/kubetoken"
	"github.com/sallyport/sallyport/xds/identity/kubetrust"
	"github.com/sallyport/sallyport/xds/replicas"
)

// Cluster is how a control plane of a Kubernetes cluster runs: objects, identities and the CA are the API server's.
type Cluster struct {
	REST      *rest.Config
	Namespace string // the control plane's
	Service   string // the control plane's Service; agents and the API server reach it by this name
	Replica   string // unique among the replicas: the pod's name
	// WebhookAddr is where the API server asks about pods and objects; "" for none.
	WebhookAddr string
	// InjectionConfigFile has the injector's settings, watched; "" for none: pods are not injected.
	InjectionConfigFile string
	// GatewayConfigFile has the settings of what Gateways of the Gateway API are made of; "" for none: nothing is made of them.
	GatewayConfigFile string
	// GatewayClassDefaults has the ConfigMap of the control plane's namespace count whose label names a Gateway's class.
	GatewayClassDefaults bool
	// RemoteClusters says to read others, as Secrets of Namespace name them.
	RemoteClusters bool
}

// cluster is a Cluster at work.
type cluster struct {
	Cluster
	client    kubernetes.Interface
	statuses  *status.Writer
	authority *ca.CA
	injection atomic.Pointer[inject.Settings]
	noNative  atomic.Bool // the cluster runs no native sidecars
	gateways  gateways
	deployed  *deploy.Keeper // nil when nothing is made of Gateways
	others    *replicas.Others
}

// own is the identity of all replicas.
func (c *cluster) own(authority *ca.CA) identity.ID {
	return identity.ID{TrustDomain: authority.TrustDomain(), Namespace: c.Namespace, ServiceAccount: c.Service}
}

// join makes the clients of a cluster, and the source of p's configuration.
func (p *plane) join(ctx context.Context, trustDomain string) (*cluster, error) {
	c := &cluster{Cluster: *p.cfg.Cluster}
	var err error
	if c.InjectionConfigFile != "" {
		if err := c.loadInjection(); err != nil {
			return nil, WrongSetting{err}
		}
	}
	if c.client, err = kubernetes.NewForConfig(c.REST); err != nil {
		return nil, fmt.Errorf("clients of the API server: %w", err)
	}
	if c.GatewayConfigFile != "" {
		if c.deployed, err = c.keepGateways(p); err != nil {
			return nil, err
		}
	}
	if c.statuses, err = status.New(c.REST, status.Options{Logger: p.log}); err != nil {
		return nil, err
	}
	p.cfg.Source = kube.New(c.REST, kube.Options{Logger: p.log, Judged: c.statuses.Judged})
	if c.RemoteClusters {
		all := &remote.Source{Own: p.cfg.Source, Client: c.client, Namespace: c.Namespace, Name: p.snapshot.Load().Mesh.Topology.Cluster, Log: p.log}
		p.metrics.MustRegister(remoteClusters(all.Reading))
		p.cfg.Source = all
	}
	c.authority, err = ca.OpenContext(ctx, ca.Options{
		DataDir: p.cfg.DataDir, Store: kubeca.NewStore(c.client.CoreV1(), c.Namespace), TrustDomain: trustDomain, Log: p.log,
		Changed: p.known.spread.set,
	})
	return c, err
}

// tokens authenticates agents that have no certificate yet. Many may come at once, so its client is not held back: the
// reviews of equal tokens are one, and the API server has its own limits.
func (c *cluster) tokens(p *plane, trustDomain string) (identity.Authenticator, error) {
	config := rest.CopyConfig(c.REST)
	config.QPS, config.Burst = -1, 0
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return kubetoken.New(kubetoken.Options{Reviews: client.AuthenticationV1().TokenReviews(), TrustDomain: trustDomain, Metrics: p.metrics})
}

// lead does what only one replica does, while it is that one.
func (c *cluster) lead(ctx context.Context, p *plane) error {
	jobs := []leader.Job{
		{Name: "statuses", Run: c.statuses.Run},
		{Name: "policies", Run: func(ctx context.Context) error { return p.judgePolicies(ctx) }},
		{Name: "enforced", Run: func(ctx context.Context) error { return p.watchEnforced(ctx) }},
		{Name: "trust bundle", Run: func(ctx context.Context) error { return c.spread(ctx, p) }},
	}
	if c.deployed != nil {
		jobs = append(jobs, leader.Job{Name: "gateways", Run: c.deployed.Run})
	}
	election, err := leader.New(c.REST, leader.Options{Namespace: c.Namespace, Identity: c.Replica, Logger: p.log}, jobs...)
	if err != nil {
		return err
	}
	return election.Run(ctx)
}

// spreadEvery is how often the trust bundle's copies are looked at though nothing is known to have changed.
const spreadEvery = 30 * time.Second

// spread brings the trust bundle to all namespaces and to the webhooks' configurations.
func (c *cluster) spread(ctx context.Context, p *plane) error {
	select {
	case <-p.ready: // before that no namespace is known
	case <-ctx.Done():
		return nil
	}
	maps := &kubetrust.ConfigMaps{Client: c.client.CoreV1(), Log: p.log}
	hooks := &kubetrust.Webhooks{
		Client:     c.client.AdmissionregistrationV1(),
		Mutating:   []string{"sallyport-injector-" + c.Namespace},
		Validating: []string{"sallyport-validator-" + c.Namespace},
	}
	kubetrust.Keep(ctx, spreadEvery, p.known.spread, p.log, func(ctx context.Context) error {
		bundle := c.authority.BundlePEM()
		var ofPath error
		if hooks.ValidatingPath, ofPath = c.validatingPath(); ofPath != nil {
			return ofPath
		}
		// the webhooks first: without them no pod is created
		_, ofHooks := hooks.Distribute(ctx, bundle)
		_, ofMaps := maps.Distribute(ctx, p.known.namespaceNames(), bundle)
		return errors.Join(ofHooks, ofMaps)
	})
	return nil
}

var remoteClusterRead = prometheus.NewDesc("sallyport_remote_cluster_read",
	"Whether another cluster is read, by its name: 1, or 0 for one that is away, or refuses its credentials, or whose kubeconfig is of no use; what was read of it before stays.", []string{"cluster"}, nil)

// remoteClusters tells who asks for metrics of each other cluster whether it is read now.
type remoteClusters func() map[string]bool

// Describe says what is told.
func (remoteClusters) Describe(out chan<- *prometheus.Desc) { out <- remoteClusterRead }

// Collect tells it.
func (reading remoteClusters) Collect(out chan<- prometheus.Metric) {
	for cluster, is := range reading() {
		value := 0.0
		if is {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(remoteClusterRead, prometheus.GaugeValue, value, cluster)
	}
}
