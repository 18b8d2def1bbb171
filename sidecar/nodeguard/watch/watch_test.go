package watch

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

// limit bounds what takes milliseconds on an idle machine.
const limit = 2 * time.Minute

// TestView runs against a real API server. Nothing runs there, so the test is the kubelet too.
func TestView(t *testing.T) {
	config := apiserver.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := kubernetes.NewForConfigOrDie(config)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "here"}, Spec: corev1.NodeSpec{PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24", "fd44:0:0:1::/64"}},
	}
	node, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	fatal(t, err)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.0.1"}, {Type: corev1.NodeExternalIP, Address: "203.0.113.1"}, {Type: corev1.NodeHostName, Address: "here"}}
	_, err = client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	fatal(t, err)
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}}}, metav1.CreateOptions{})
	fatal(t, err)
	_, err = client.CoreV1().ServiceAccounts("shop").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	fatal(t, err)
	service, err := client.CoreV1().Services("shop").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	fatal(t, err)

	w, err := New(config, Options{Node: "here", Services: true, Log: slog.New(slog.DiscardHandler)})
	fatal(t, err)
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	fatal(t, w.Synced(ctx))
	v := w.View()
	want := []nodeguard.Node{{
		Name: "here", PodNetworks: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd44:0:0:1::/64")},
		Addresses: []netip.Addr{netip.MustParseAddr("192.168.0.1")},
	}}
	if diff := cmp.Diff(want, v.Nodes, byValue...); diff != "" {
		t.Error(diff)
	}
	if v.Namespaces["shop"]["istio-injection"] != "enabled" || len(v.Pods) != 0 {
		t.Errorf("%+v", v)
	}
	if !slices.Contains(v.Services, netip.MustParseAddr(service.Spec.ClusterIP)) {
		t.Errorf("Services %v are without %s", v.Services, service.Spec.ClusterIP)
	}

	// A pod here, and one elsewhere.
	for name, on := range map[string]string{"web": "here", "other": "there"} {
		p, err := client.CoreV1().Pods("shop").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
			Spec:       corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Name: "app", Image: "app"}}},
		}, metav1.CreateOptions{})
		fatal(t, err)
		p.Status.PodIP, p.Status.PodIPs, p.Status.Phase = "10.244.1.2", []corev1.PodIP{{IP: "10.244.1.2"}, {IP: "fd44:0:0:1::2"}}, corev1.PodRunning
		_, err = client.CoreV1().Pods("shop").UpdateStatus(ctx, p, metav1.UpdateOptions{})
		fatal(t, err)
	}
	pod := nodeguard.Pod{
		Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"},
		Addresses: []netip.Addr{netip.MustParseAddr("10.244.1.2"), netip.MustParseAddr("fd44:0:0:1::2")},
	}
	w.eventually(t, "the pod with its addresses", func(v nodeguard.View) bool { return cmp.Equal(v.Pods, []nodeguard.Pod{pod}, byValue...) })
	p, err := client.CoreV1().Pods("shop").Get(ctx, "web", metav1.GetOptions{})
	fatal(t, err)
	p.Status.Phase = corev1.PodSucceeded
	_, err = client.CoreV1().Pods("shop").UpdateStatus(ctx, p, metav1.UpdateOptions{})
	fatal(t, err)
	w.eventually(t, "that the pod ended", func(v nodeguard.View) bool { return len(v.Pods) == 1 && v.Pods[0].Ended })
	now := int64(0)
	fatal(t, client.CoreV1().Pods("shop").Delete(ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	w.eventually(t, "that the pod is gone", func(v nodeguard.View) bool { return len(v.Pods) == 0 })

	_, err = client.CoreV1().Namespaces().Update(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.UpdateOptions{})
	fatal(t, err)
	w.eventually(t, "the namespace without its label", func(v nodeguard.View) bool { return v.Namespaces["shop"]["istio-injection"] == "" })
}

// TestNoServer: what cannot be asked is said once, and nothing is synced.
func TestNoServer(t *testing.T) {
	var log strings.Builder
	k := &kind{name: "pods", log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, err := range []error{context.DeadlineExceeded, context.DeadlineExceeded, nil, nil} {
		k.note(t.Context(), err)
	}
	if got := strings.Count(log.String(), "\n"); got != 2 || !strings.Contains(log.String(), "resource=pods error=") {
		t.Errorf("%d lines: %s", got, log.String())
	}
}

var byValue = []cmp.Option{
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

// eventually waits for a view, woken by the watcher's own sign.
func (w *Watcher) eventually(t *testing.T, what string, is func(nodeguard.View) bool) {
	t.Helper()
	timeout := time.After(limit)
	for !is(w.View()) {
		select {
		case <-w.Changed():
		case <-timeout:
			t.Fatalf("want %s, have %+v", what, w.View())
		}
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
