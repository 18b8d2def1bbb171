package chart

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/kube"
	"github.com/sallyport/sallyport/config/source/kube/leader"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/kubeca"
	"github.com/sallyport/sallyport/xds/identity/kubetrust"
)

// readsAll: a source gets everything that it watches.
func readsAll(ctx context.Context, t *testing.T, source *kube.Source) {
	t.Helper()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- source.Run(running, func([]config.Change, []admission.Finding) {}) }()
	select {
	case <-source.Synced():
	case <-ctx.Done():
		t.Error("the source does not get all that it watches")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, finding := range source.Findings() {
		t.Errorf("the source: %v", finding)
	}
}

// worksAsItself: what the controller and the audit server's page do in Kubernetes, their accounts may do.
func (c *cluster) worksAsItself(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	access, client := c.account("sallyport"), c.asAccount(t, "sallyport")
	readsAll(ctx, t, kube.New(access, kube.Options{}))
	readsAll(ctx, t, kube.NewDeciding(c.account("sallyport-audit"), kube.Options{}))

	ended := make(chan error, 1)
	leading := make(chan struct{})
	job := leader.Job{Name: "test", Run: func(ctx context.Context) error { close(leading); <-ctx.Done(); return nil }}
	election, err := leader.New(access, leader.Options{Namespace: namespace, Identity: "test"}, job)
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	go func() { ended <- election.Run(running) }()
	select {
	case <-leading:
	case <-ctx.Done():
		t.Error("the only replica does not lead")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	store := kubeca.NewStore(client.CoreV1(), namespace)
	if _, err := ca.OpenContext(ctx, ca.Options{Store: store}); err != nil {
		t.Errorf("the CA: %v", err)
	}
	trust := kubetrust.ConfigMaps{Client: client.CoreV1()}
	for _, namespaces := range [][]string{{"shop", namespace}, {namespace}} {
		if done, err := trust.Distribute(ctx, namespaces, []byte("roots")); err != nil || done.Created+done.Deleted == 0 {
			t.Errorf("the mesh's roots in %v: %+v, %v", namespaces, done, err)
		}
	}
	hooks := kubetrust.Webhooks{Client: client.AdmissionregistrationV1(), Mutating: []string{injector}, Validating: []string{validator}, ValidatingPath: "/validate/key"}
	if n, err := hooks.Distribute(ctx, []byte("roots")); err != nil || n != 2 {
		t.Errorf("the caBundle: %d written, %v", n, err)
	}
	if _, err := client.CoreV1().Secrets(namespace).Get(ctx, kubeca.OwnSecret, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
