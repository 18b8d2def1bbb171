package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sallyport/sallyport/e2e/cluster/images"
	"github.com/sallyport/sallyport/e2e/cluster/node"
	"github.com/sallyport/sallyport/e2e/tools"
)

const pollEvery = 200 * time.Millisecond

// Options change what Up does.
type Options struct {
	DNS []netip.AddrPort // servers that CoreDNS asks about names outside the cluster; SetDNS changes them
	Log *slog.Logger     // progress; none if nil
}

// Up brings the cluster up, or finds it up. What a cluster that died left behind is removed first. When it returns, the
// node is ready and CoreDNS answers.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a test cluster needs root")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	unlock, err := lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if c, err := Open(); !errors.Is(err, ErrDown) {
		if err == nil {
			o.Log.Info("the cluster is up already")
			err = c.settle(ctx, o)
		}
		return c, err
	}
	p, err := findPrograms()
	if err != nil {
		return nil, err
	}
	step := steps(o.Log)
	if err := node.Remove(ctx, Dir); err != nil {
		return nil, fmt.Errorf("removing what an earlier cluster left: %w", err)
	}
	if err := node.Free(Network); err != nil {
		return nil, err
	}
	if err := prepare(ctx); err != nil {
		return nil, err
	}
	step("prepared")
	spec := node.Spec{Hostname: NodeName, Address: nodeAddress, Virtual: Services, Logs: logsDir(), Services: services(p)}
	if _, err := node.Start(ctx, Dir, in("init"), spec); err != nil {
		return nil, fmt.Errorf("starting the node: %w", err)
	}
	if err := node.Route(Network, NodeAddr); err != nil {
		return nil, err
	}
	c, err := Open()
	if err != nil {
		return nil, err
	}
	step("started")
	return c, c.settle(ctx, o)
}

// prepare writes everything that the node's programs read.
func prepare(ctx context.Context) error {
	if err := os.MkdirAll(Dir, 0o755); err != nil {
		return err
	}
	root, err := images.Checkout(ctx)
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", in("init"), "./e2e/cluster/node/init")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	_, err = output(build)
	return errors.Join(err, writeIdentities(), writeConfigs())
}

// settle waits until the cluster works, and brings what a cluster has beside its programs.
func (c *Cluster) settle(ctx context.Context, o Options) error {
	step := steps(o.Log)
	if err := poll(ctx, func() error { _, err := c.present(ctx); return err }); err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	if _, err := c.load(ctx, images.System, false); err != nil {
		return err
	}
	step("images of the system are loaded")
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	if err := poll(ctx, func() error {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	step("the API server is ready")
	if err := poll(ctx, func() error { return nodeReady(ctx, client) }); err != nil {
		return err
	}
	step("the node is ready")
	if err := c.SetDNS(ctx, o.DNS...); err != nil {
		return err
	}
	step("CoreDNS is ready")
	return nil
}

func nodeReady(ctx context.Context, client kubernetes.Interface) error {
	n, err := client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("the node is not ready: %+v", n.Status.Conditions)
}

// Down ends the cluster and removes all of it. It may be called in any state.
func Down(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("a test cluster needs root")
	}
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	return node.Remove(ctx, Dir)
}

// lock makes ups and downs of several processes happen one after the other. Its file is outside Dir, which they remove.
func lock() (unlock func(), err error) {
	cache, err := tools.Cache()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(cache, ".cluster.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// steps logs how long each step took since the one before.
func steps(log *slog.Logger) func(string) {
	last := time.Now()
	return func(what string) {
		log.Info(what, "took", time.Since(last).Round(10*time.Millisecond))
		last = time.Now()
	}
}

// poll repeats f until it is nil, and gives its last error when the context ends first.
func poll(ctx context.Context, f func() error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
