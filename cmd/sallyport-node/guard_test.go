package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/e2e/world"
)

const (
	limit = 2 * time.Minute // for what takes moments on an idle machine
	every = 20 * time.Millisecond

	answerWithin = 20 * time.Second // for one connection
)

// stage is a node (the world's router) with a guarded pod (app) and one that is not (control), and their API server.
type stage struct {
	*world.World
	t          *testing.T
	api        kubernetes.Interface
	kubeconfig string // for programs on the node
	hereConfig string // for this process
	outside    string // an address in the world
}

// TestGuard plays the program's life: real API server, real kernel, the process killed and started again.
func TestGuard(t *testing.T) {
	s := newStage(t)
	if err := s.reach(s.App); err != nil {
		t.Fatalf("before: %v", err)
	}
	guard := s.start("guard-1")
	s.eventually("a guarded pod is refused", func() error { return s.refused(s.App) })
	s.holds("another pod is not", s.reach(s.Control))
	s.holds("the pods reach each other", s.dial(s.App, net.JoinHostPort(world.ControlAddr.String(), "9090")))
	if out, err := s.App.Run(t.Context(), world.ProxyUID, "curl", "--silent", "--max-time", "2", "http://"+s.outside); err == nil {
		t.Errorf("user %d got out: %s", world.ProxyUID, out)
	}
	s.eventually("metrics name the pod", func() error {
		got, err := s.get("/metrics")
		if err == nil && !strings.Contains(got, `sallyport_guard_refused_packets_total{address="10.77.0.10",namespace="shop",pod="app"}`) {
			err = errors.New(got)
		}
		return err
	})
	s.eventually("the log names pod and destination", func() error {
		log, err := os.ReadFile(s.LogFile("guard-1"))
		if err == nil && !strings.Contains(string(log), "pod=shop/app why=guarded source=10.77.0.10 destination="+s.outside) {
			err = errors.New(string(log))
		}
		return err
	})

	// The namespace is taken out, a connection opened, the namespace put back.
	s.label("")
	s.eventually("an open namespace", func() error { return s.reach(s.App) })
	c := s.connect(s.App)
	s.label("enabled")
	s.eventually("the open connection is cut", func() error {
		if err := echo(c); err == nil {
			return errors.New("it goes on")
		}
		return nil
	})
	_ = c.Close()

	// Killed, the guard guards on, and the next one takes over without a moment in between.
	s.holds("kill", guard.Kill())
	s.holds("refused without a guard", s.refused(s.App))
	s.holds("open without a guard", s.reach(s.Control))
	leak := s.listenForLeaks()
	stop := make(chan struct{})
	sent := s.sendUntil(stop)
	guard = s.start("guard-2", "--on-exit=release")
	close(stop)
	if n := <-sent; n == 0 {
		t.Error("nothing was sent while the guard started")
	}
	if err := leak(); err != nil {
		t.Error(err)
	}
	s.holds("refused by the second guard", s.refused(s.App))

	// And it goes as asked.
	s.holds("stop", guard.Stop(limit))
	s.holds("released", s.reach(s.App))
	for _, want := range []string{"there is no table", "removed the table"} {
		if strings.HasPrefix(want, "removed") {
			s.holds("stop", s.start("guard-3").Stop(limit))
			s.holds("refused after an ordinary end", s.refused(s.App))
		}
		out, err := s.Router.Run(t.Context(), 0, "env", playVariable+"=1", os.Args[0], "clean")
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("clean: %s, %v, want %q", out, err, want)
		}
	}
	s.holds("cleaned", s.reach(s.App))

	out, code, err := call("guard", "--dry-run", "--node-name", "here", "--kubeconfig", s.hereConfig)
	if code != 0 || !strings.Contains(out, "set guarded4 {\n\t\ttype ipv4_addr\n\t\telements = { 10.77.0.10 }") {
		t.Errorf("--dry-run: %d, %v: %s", code, err, out)
	}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	if err := world.CanNamespace(); err != nil {
		t.Skip(err)
	}
	server := apiserver.StartWith(t, apiserver.Options{WithoutCRDs: true})
	run, err := world.NewRun()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
	w, err := world.New(run)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{World: w, t: t, api: kubernetes.NewForConfigOrDie(server.Config), outside: net.JoinHostPort(world.OutsideAddrs[0].String(), "443")}
	s.kubeconfig = server.Kubeconfig
	s.objects()
	s.bringIn(server)
	s.serve(w.Outside, s.outside)
	s.serve(w.Control, net.JoinHostPort(world.ControlAddr.String(), "9090"))
	return s
}

// objects makes what a cluster would have.
func (s *stage) objects() {
	ctx := s.t.Context()
	_, err := s.api.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}, Spec: corev1.NodeSpec{PodCIDR: "10.77.0.0/24", PodCIDRs: []string{"10.77.0.0/24"}}}, metav1.CreateOptions{})
	s.holds("node", err)
	for _, pod := range []struct{ namespace, name, address string }{{"shop", "app", world.AppAddr.String()}, {"legacy", "control", world.ControlAddr.String()}} {
		_, err := s.api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.namespace}}, metav1.CreateOptions{})
		s.holds("namespace", err)
		_, err = s.api.CoreV1().ServiceAccounts(pod.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
		s.holds("account", err)
		p, err := s.api.CoreV1().Pods(pod.namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: pod.name}, Spec: corev1.PodSpec{NodeName: "here", Containers: []corev1.Container{{Name: "app", Image: "app"}}},
		}, metav1.CreateOptions{})
		s.holds("pod", err)
		p.Status.PodIP, p.Status.PodIPs, p.Status.Phase = pod.address, []corev1.PodIP{{IP: pod.address}}, corev1.PodRunning
		_, err = s.api.CoreV1().Pods(pod.namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
		s.holds("pod's status", err)
	}
	s.label("enabled")
}

// label sets the label of the guarded pod's namespace.
func (s *stage) label(injection string) {
	patch := fmt.Sprintf(`{"metadata":{"labels":{"istio-injection":%q}}}`, injection)
	_, err := s.api.CoreV1().Namespaces().Patch(s.t.Context(), "shop", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	s.holds("label", err)
}

// bringIn makes the API server reachable from the node, at a loopback address there.
func (s *stage) bringIn(server *apiserver.Server) {
	l, err := s.Router.Listen("127.0.0.1:0")
	s.holds("listen", err)
	s.t.Cleanup(func() { _ = l.Close() })
	to := strings.TrimPrefix(server.Config.Host, "https://")
	go accept(s.t.Context(), l, func(c net.Conn) {
		other, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer func() { _ = other.Close() }()
		go func() { _, _ = io.Copy(other, c); _ = other.Close() }()
		_, _ = io.Copy(c, other)
	})
	config, err := clientcmd.LoadFromFile(server.Kubeconfig)
	s.holds("kubeconfig", err)
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + l.Addr().String()
	}
	s.kubeconfig = filepath.Join(s.t.TempDir(), "kubeconfig")
	s.holds("kubeconfig", clientcmd.WriteToFile(*config, s.kubeconfig))
	s.hereConfig = server.Kubeconfig
}

// start starts the program on the node and waits until it is ready.
func (s *stage) start(name string, flags ...string) *world.Process {
	s.t.Helper()
	p, err := s.Router.Start(name, 0, append([]string{"env", playVariable + "=1", os.Args[0], "guard", "--node-name=here", "--kubeconfig=" + s.kubeconfig, "--health-addr=127.0.0.1:8081"}, flags...)...)
	s.holds("start", err)
	s.eventually("ready", func() error {
		if err := p.Running(); err != nil {
			return err
		}
		_, err := s.get("/readyz")
		return err
	})
	return p
}

func (s *stage) get(path string) (string, error) {
	response, err := s.Router.HTTPClient().Get("http://127.0.0.1:8081" + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

func (s *stage) dial(from *world.Host, address string) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), answerWithin)
	defer cancel()
	c, err := from.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return echo(c)
}

func (s *stage) connect(from *world.Host) net.Conn {
	s.t.Helper()
	c, err := from.DialContext(s.t.Context(), "tcp", s.outside)
	s.holds("connect", err)
	s.holds("echo", echo(c))
	return c
}

// reach tells whether the host gets out.
func (s *stage) reach(from *world.Host) error { return s.dial(from, s.outside) }

// refused tells whether the host is refused at once.
func (s *stage) refused(from *world.Host) error {
	if err := s.reach(from); !errors.Is(err, syscall.ECONNREFUSED) {
		return errors.Join(errors.New("want that it is refused"), err)
	}
	return nil
}

// listenForLeaks takes what comes to the world by UDP. The function that it returns says whether anything did.
func (s *stage) listenForLeaks() func() error {
	c, err := s.Outside.ListenPacket(s.outside)
	s.holds("listen", err)
	return func() error {
		defer func() { _ = c.Close() }()
		s.holds("deadline", c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
		if n, from, err := c.ReadFrom(make([]byte, 64)); err == nil {
			return fmt.Errorf("%d bytes from %s got out while the guard started", n, from)
		}
		return nil
	}
}

// sendUntil sends datagrams to the world from the guarded pod, and says how many.
func (s *stage) sendUntil(stop <-chan struct{}) <-chan int {
	c, err := s.App.DialContext(s.t.Context(), "udp", s.outside)
	s.holds("dial", err)
	sent := make(chan int, 1)
	go func() {
		defer func() { _ = c.Close() }()
		for n := 0; ; n++ {
			select {
			case <-stop:
				sent <- n
				return
			default:
				_, _ = c.Write([]byte("secret")) // what comes of it is the guard's answer
			}
		}
	}()
	return sent
}

func (s *stage) serve(h *world.Host, address string) {
	l, err := h.Listen(address)
	s.holds("listen", err)
	s.t.Cleanup(func() { _ = l.Close() })
	go accept(s.t.Context(), l, func(c net.Conn) { _, _ = io.Copy(c, c) })
}

func accept(ctx context.Context, l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		context.AfterFunc(ctx, func() { _ = c.Close() })
		go func() { serve(c); _ = c.Close() }()
	}
}

func echo(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 5))
	return err
}

func (s *stage) eventually(what string, f func() error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	s.holds(what, world.Poll(ctx, every, f))
}

func (s *stage) holds(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}
