package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/kube"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// What the chart calls things.
const (
	controllerLabel = "app=sallyport"
	auditLabel      = "app=sallyport-audit"
	meshConfigMap   = "istio"
	meshConfigKey   = "mesh"
	viewerRole      = "sallyport-viewer"
)

// How long a cluster may take: to answer at all, for everything that is read once, and for kinds that it refuses.
const (
	answerWithin  = 10 * time.Second
	readWithin    = 2 * time.Minute
	refusedWithin = 3 * time.Second
)

// clusterAccess is a cluster that answers.
type clusterAccess struct {
	config *rest.Config
	client kubernetes.Interface
	system string // the control plane's namespace
}

// service is the control plane's.
func (a *clusterAccess) service() registry.Ref {
	return registry.Ref{Namespace: a.system, Name: registry.ControlPlaneService}
}

// open connects, and says early when nobody answers.
func (c *clusterFlags) open(ctx context.Context) (*clusterAccess, error) {
	if c.namespace == "" {
		return nil, program.Misuse(errors.New("--system-namespace is empty: name the control plane's, such as istio-system"))
	}
	config, err := c.connect()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, program.Misuse(fmt.Errorf("--kubeconfig %q: %w", c.kubeconfig, err))
	}
	access := &clusterAccess{config: config, client: client, system: c.namespace}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if _, err := client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx); err != nil {
		return nil, access.noAccess(fmt.Errorf("the API server at %s: %w", config.Host, err))
	}
	return access, nil
}

// noAccess says what to do about an API server's refusal, which names the missing right itself.
func (a *clusterAccess) noAccess(err error) error {
	switch {
	// of a refused tunnel only the words are left
	case apierrors.IsForbidden(err), err != nil && strings.Contains(err.Error(), " is forbidden: User "):
		return fmt.Errorf("no access: %w; %s", err, a.viewer())
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("no access: %w; the API server does not know the kubeconfig's user: log in again, or choose another --context", err)
	}
	return err
}

// viewer says which roles of the chart have the rights that these commands take.
func (a *clusterAccess) viewer() string {
	return fmt.Sprintf("ClusterRole %s-%s, with Role %s in namespace %s, has what these commands take", viewerRole, a.system, viewerRole, a.system)
}

// mesh reads the mesh's settings; a cluster without them has the defaults.
func (a *clusterAccess) mesh(ctx context.Context) (mesh.Config, error) {
	found, err := a.client.CoreV1().ConfigMaps(a.system).Get(ctx, meshConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return mesh.Default(), nil
	} else if err != nil {
		return mesh.Config{}, a.noAccess(fmt.Errorf("the mesh's settings: ConfigMap %s/%s: %w", a.system, meshConfigMap, err))
	}
	settings, err := mesh.Parse([]byte(found.Data[meshConfigKey]))
	if err != nil {
		return mesh.Config{}, fmt.Errorf("the mesh's settings: ConfigMap %s/%s: %s: %w", a.system, meshConfigMap, meshConfigKey, err)
	}
	return settings, nil
}

// settings are the mesh's: those of a file, else the cluster's.
func (a *clusterAccess) settings(ctx context.Context, file string) (mesh.Config, error) {
	if file == "" {
		return a.mesh(ctx)
	}
	settings, err := mesh.Load(file)
	if err != nil {
		return settings, program.Misuse(err)
	}
	return settings, nil
}

// read takes the cluster's objects once, as the control plane sees them, and what is wrong with them. That a kind may not
// be read is a finding, whose key has but the kind.
func (a *clusterAccess) read(ctx context.Context) (changes []config.Change, findings []admission.Finding, err error) {
	ctx, done := context.WithTimeout(ctx, readWithin)
	defer done()
	// who may read no kind at all would be waited for
	if _, err := a.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return nil, nil, a.noAccess(err)
	}
	first := true
	err = kube.New(a.config, kube.Options{Patience: refusedWithin}).Run(ctx, func(c []config.Change, f []admission.Finding) {
		if first {
			changes, findings, first = c, f, false
		}
		done()
	})
	if first {
		if err == nil {
			err = fmt.Errorf("its objects were not all read: %w", ctx.Err())
		}
		return nil, nil, a.noAccess(fmt.Errorf("the API server at %s: %w", a.config.Host, err))
	}
	return changes, findings, nil
}
