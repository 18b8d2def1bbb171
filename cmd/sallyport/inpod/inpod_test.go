package inpod

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// node plays the API server and the kubelet: each look finds the container one state further.
type node struct {
	states []corev1.ContainerState
	looked func(looks int) // called after each look

	mu      sync.Mutex
	started *corev1.EphemeralContainer
	looks   int
}

var (
	starting = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	runs     = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	over     = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	noImage  = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}}
)

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	const path = "/api/v1/namespaces/shop/pods/web-1"
	pod := corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"}}
	switch {
	case r.Method == http.MethodPatch && r.URL.Path == path+"/ephemeralcontainers":
		body, _ := io.ReadAll(r.Body)
		var patch corev1.Pod
		if json.Unmarshal(body, &patch) != nil || len(patch.Spec.EphemeralContainers) != 1 {
			http.Error(w, string(body), http.StatusBadRequest)
			return
		}
		n.started = &patch.Spec.EphemeralContainers[0]
	case r.Method == http.MethodGet && r.URL.Path == path && n.started != nil:
		pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{
			{Name: "another", State: over}, {Name: n.started.Name, State: n.states[min(n.looks, len(n.states)-1)]},
		}
		n.looks++
		if n.looked != nil {
			defer n.looked(n.looks)
		}
	case r.Method == http.MethodGet && r.URL.Path == path+"/log" && r.URL.Query().Get("container") == n.started.Name:
		_, _ = io.WriteString(w, "what it says\n")
		return
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(pod)
}

func run(ctx context.Context, t *testing.T, n *node, user int64) (string, error) {
	t.Helper()
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL, QPS: -1})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"}}
	out, err := Run(ctx, client, pod, Program{Name: "verify", Image: "agent:v1", Args: []string{"verify", "-o=json"}, User: user})
	return string(out), err
}

func TestRun(t *testing.T) {
	n := &node{states: []corev1.ContainerState{starting, runs, over}}
	out, err := run(t.Context(), t, n, 65534)
	if err != nil || out != "what it says\n" {
		t.Fatalf("%q, %v", out, err)
	}
	c := n.started
	s := c.SecurityContext
	if !strings.HasPrefix(c.Name, "verify-") || c.Image != "agent:v1" || len(c.Args) != 2 || *s.RunAsUser != 65534 || *s.RunAsGroup != 65534 || !*s.RunAsNonRoot || *s.AllowPrivilegeEscalation || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("%+v", c)
	}
}

// TestRoot keeps the capabilities that containers have by default: it is to find what root could do.
func TestRoot(t *testing.T) {
	n := &node{states: []corev1.ContainerState{over}}
	if _, err := run(t.Context(), t, n, 0); err != nil || n.started.SecurityContext.Capabilities != nil || *n.started.SecurityContext.RunAsNonRoot {
		t.Errorf("%v: %+v", err, n.started)
	}
}

func TestDoesNotStart(t *testing.T) {
	_, err := run(t.Context(), t, &node{states: []corev1.ContainerState{starting, noImage}}, 1)
	if err == nil || !strings.Contains(err.Error(), "ErrImagePull: no such image") {
		t.Error(err)
	}
}

// TestTakesTooLong: who waits in vain is told what the container does.
func TestTakesTooLong(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := run(ctx, t, &node{states: []corev1.ContainerState{starting, runs}, looked: func(looks int) {
		if looks == 3 {
			cancel(enough)
		}
	}}, 1)
	if !errors.Is(err, enough) || !strings.Contains(err.Error(), "it runs still") {
		t.Error(err)
	}
}
