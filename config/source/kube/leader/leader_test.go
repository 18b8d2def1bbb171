package leader

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/e2e/world"
)

func TestMain(m *testing.M) {
	leaks.Verify(m,
		goleak.IgnoreAnyFunction("github.com/sallyport/sallyport/e2e/world.startForever"),
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("net/http.(*http2ClientConn).readLoop"), goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"))
}

const patience = 2 * time.Minute

// replica is an election at work; its job counts how many replicas work at once.
type replica struct {
	*Election
	began, ended chan struct{}
	stop         func()
}

func start(t *testing.T, config *rest.Config, identity string, atWork *atomic.Int32, runs ...func(context.Context) error) *replica {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(config)
	r := &replica{began: make(chan struct{}, 10), ended: make(chan struct{}, 10)}
	job := func(ctx context.Context) error {
		if atWork.Add(1) != 1 {
			t.Error("two replicas work at once")
		}
		r.began <- struct{}{}
		<-ctx.Done()
		// The Lease is given up only when the job has ended.
		lease, err := client.CoordinationV1().Leases("lead").Get(context.Background(), LeaseName, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != identity && *lease.Spec.HolderIdentity != thief {
			t.Errorf("%s is at work, and the Lease is %+v, %v", identity, lease, err)
		}
		atWork.Add(-1)
		r.ended <- struct{}{}
		return nil
	}
	jobs := []Job{{"count", job}}
	for _, run := range runs {
		jobs = append(jobs, Job{"extra", run})
	}
	var err error
	r.Election, err = New(config, Options{
		Namespace: "lead", Identity: identity, LeaseDuration: time.Hour, RenewDeadline: 10 * time.Second, RetryPeriod: 100 * time.Millisecond,
	}, jobs...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	return r
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: it never came", what)
	}
}

func TestOneLeads(t *testing.T) {
	config := apiserver.Start(t)
	client := kubernetes.NewForConfigOrDie(config)
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lead"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var atWork atomic.Int32
	var tries atomic.Int32
	again := make(chan struct{}, 10)
	failing := func(ctx context.Context) error {
		if tries.Add(1) == 1 {
			return errors.New("it failed once")
		}
		again <- struct{}{}
		<-ctx.Done()
		return nil
	}
	a := start(t, config, "a", &atWork, failing)
	await(t, "a leads", a.began)
	await(t, "a job that failed runs again", again)
	b := start(t, config, "b", &atWork)
	if err := world.Within(t.Context(), patience, func() error {
		if b.Leader() != "a" {
			return errors.New("b does not know who leads")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !a.Leading() || b.Leading() {
		t.Errorf("a leads: %v, b leads: %v", a.Leading(), b.Leading())
	}
	// A leader that goes gives the Lease up: the next begins before it would expire.
	a.stop()
	await(t, "b leads", b.began)
	// Somebody takes the Lease away: the jobs end, and begin again when it can be had.
	hold(t, client, thief)
	await(t, "b stops", b.ended)
	hold(t, client, "")
	await(t, "b leads again", b.began)
	b.stop()
	if atWork.Load() != 0 {
		t.Error("a job goes on after Run returned")
	}
}

// thief takes the Lease without asking.
const thief = "thief"

// hold writes the Lease's holder; "" gives it up.
func hold(t *testing.T, client kubernetes.Interface, holder string) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := client.CoordinationV1().Leases("lead").Get(t.Context(), LeaseName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &now
		_, err = client.CoordinationV1().Leases("lead").Update(t.Context(), lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNewNeedsNames(t *testing.T) {
	if _, err := New(&rest.Config{Host: "https://localhost"}, Options{Namespace: "a"}); err == nil {
		t.Error("no identity, but no error")
	}
}
