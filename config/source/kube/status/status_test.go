package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/source/kube"
	"github.com/sallyport/sallyport/config/source/kube/condition"
	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) {
	leaks.Verify(m,
		goleak.IgnoreAnyFunction("github.com/sallyport/sallyport/e2e/world.startForever"),
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

var entries = schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "serviceentries"}

func key(name string) config.Key {
	return config.Key{Kind: config.KindServiceEntry, Namespace: "default", Name: name}
}

// control is a replica: source and writer; the writer writes when told to.
type control struct {
	*Writer
	t       *testing.T
	synced  <-chan struct{}
	stop    func()
	writing func()
}

func startControl(t *testing.T, access *rest.Config) *control {
	t.Helper()
	w, err := New(access, Options{
		Logger: slog.New(slog.DiscardHandler), Settle: 50 * time.Millisecond, Rest: 200 * time.Millisecond, PerSecond: 200,
		RetryMin: 50 * time.Millisecond, RetryMax: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := kube.New(access, kube.Options{Judged: w.Judged})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() {
		done <- s.Run(ctx, func(batch []config.Change, _ []admission.Finding) {
			details := map[config.Key]Details{}
			for _, c := range batch {
				if c.Key.Kind == config.KindEgressPolicy && c.Object != nil {
					details[c.Key] = Details{Revision: c.Object.Revision, Rules: len(c.Object.Spec.(*v1alpha1.EgressPolicy).Rules)}
				}
				if c.Key.Kind == config.KindServiceEntry && c.Object != nil {
					details[c.Key] = Details{
						Gateway:   "istio-system/istio-egressgateway",
						Addresses: []condition.Address{{Value: "240.240.0.7", Host: c.Key.Name + ".com"}},
					}
				}
			}
			w.Update(details)
		})
	}()
	running := 1
	c := &control{Writer: w, t: t, synced: s.Synced()}
	c.writing = func() {
		running++
		go func() { done <- w.Run(ctx) }()
	}
	stopped := false
	c.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range running {
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		}
	}
	t.Cleanup(c.stop)
	select {
	case <-c.synced:
	case <-time.After(2 * time.Minute):
		t.Fatal("not synced")
	}
	return c
}

func eventually(t *testing.T, what func() string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestWriter writes statuses to a real API server.
func TestWriter(t *testing.T) {
	access := apiserver.Start(t)
	wide := rest.CopyConfig(access)
	wide.QPS = -1
	client := dynamic.NewForConfigOrDie(wide).Resource(entries).Namespace("default")
	apply := func(name string, spec map[string]any) {
		t.Helper()
		base := map[string]any{
			"hosts": []any{name + ".com"}, "location": "MESH_EXTERNAL", "resolution": "DNS",
			"ports": []any{map[string]any{"number": int64(443), "name": "tls", "protocol": "TLS"}},
		}
		for k, v := range spec {
			base[k] = v
		}
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": map[string]any{"name": name, "namespace": "default"}, "spec": base,
		}}
		if _, err := client.Apply(t.Context(), name, o, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	get := func(name string) *unstructured.Unstructured {
		t.Helper()
		o, err := client.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	status := func(name string) (condition.Status, string) {
		text, err := json.Marshal(get(name).Object["status"])
		if err != nil {
			t.Fatal(err)
		}
		return condition.Parse(text), string(text)
	}
	find := func(name, typ string) condition.Condition {
		s, _ := status(name)
		for _, c := range s.Conditions {
			if c.Type == typ {
				return c
			}
		}
		return condition.Condition{}
	}
	text := func(name string) func() string {
		return func() string { _, s := status(name); return s }
	}

	apply("good", nil)
	apply("bad", map[string]any{"exportTo": []any{".", "*"}})
	standby := startControl(t, access)
	leader := startControl(t, access)
	if leader.Pending() != 2 {
		t.Errorf("%d are pending, want 2", leader.Pending())
	}
	leader.writing()
	eventually(t, text("good"), func() bool { return find("good", condition.Accepted).Status == "True" })
	if g := find("good", condition.Gateway); g.Status != "True" || g.Message != "istio-system/istio-egressgateway" || g.ObservedGeneration != 1 {
		t.Errorf("gateway %+v", g)
	}
	if s, _ := status("good"); len(s.Addresses) != 1 || s.Addresses[0].Value != "240.240.0.7" {
		t.Errorf("addresses %+v", s.Addresses)
	}
	eventually(t, text("bad"), func() bool { return find("bad", condition.Accepted).Status == "False" })
	if c := find("bad", condition.Accepted); c.Reason != "Invalid" || c.Message != `spec.exportTo[1]: "*": "*" cannot stand beside other values; write it alone, or remove it` || c.LastTransitionTime == "" {
		t.Errorf("accepted %+v", c)
	}
	if g := find("bad", condition.Gateway); g.Type != "" {
		t.Errorf("nothing of it is used, but it has a gateway %+v", g)
	}

	t.Run("the standby sees what the leader wrote, and wrote nothing", func(t *testing.T) {
		for _, w := range []*control{standby, leader} {
			eventually(t, func() string { return fmt.Sprint(w.Pending(), " pending") }, func() bool { return w.Pending() == 0 })
		}
		for _, f := range get("good").GetManagedFields() {
			if f.Subresource == "status" && f.Manager != "sallyport" {
				t.Errorf("%s wrote the status", f.Manager)
			}
		}
	})
	t.Run("nothing is written again", func(t *testing.T) {
		was := get("good").GetResourceVersion()
		apply("mark", nil)
		eventually(t, text("mark"), func() bool { return find("mark", condition.Accepted).Status == "True" })
		if now := get("good").GetResourceVersion(); now != was {
			t.Errorf("version %s, was %s", now, was)
		}
	})
	t.Run("a new generation is judged, others' conditions stay", func(t *testing.T) {
		patch := `{"status":{"conditions":[{"type":"example.com/Theirs","status":"True"}]}}`
		if _, err := client.Patch(t.Context(), "good", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		eventually(t, text("good"), func() bool { return find("good", condition.Accepted).Status == "True" }) // ours come back
		apply("good", map[string]any{"exportTo": []any{".", "*"}})
		eventually(t, text("good"), func() bool { return find("good", condition.Accepted).ObservedGeneration == 2 })
		c := find("good", condition.Accepted)
		if c.Status != "False" || find("good", condition.Reconciled).Message != "the last good version of the object is in use" {
			t.Errorf("accepted %+v", c)
		}
		if g := find("good", condition.Gateway); g.Status != "True" {
			t.Errorf("the last good version's gateway is not there: %+v", g)
		}
		all, _, _ := unstructured.NestedSlice(get("good").Object, "status", "conditions")
		if len(all) != 4 || all[0].(map[string]any)["type"] != "example.com/Theirs" {
			t.Errorf("conditions %v", all)
		}
	})
	t.Run("a policy says which revision of it is in use", func(t *testing.T) {
		policies := dynamic.NewForConfigOrDie(wide).Resource(schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: "egresspolicies"}).Namespace("default")
		status := func(o *unstructured.Unstructured) (s condition.Status) {
			text, err := json.Marshal(o.Object["status"])
			if err != nil {
				t.Fatal(err)
			}
			return condition.Parse(text)
		}
		revisions := map[string]bool{}
		for rules := range 3 { // none allows anything: without a rule the default has to be said
			o := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "egress.sallyport.io/v1alpha1", "kind": "EgressPolicy", "metadata": map[string]any{"name": "policy", "namespace": "default"},
				"spec": map[string]any{"default": "Deny", "rules": slices.Repeat([]any{map[string]any{"action": "Deny"}}, rules)},
			}}
			o, err := policies.Apply(t.Context(), "policy", o, metav1.ApplyOptions{FieldManager: "test", Force: true})
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, func() string { return fmt.Sprint(o.Object["status"]) }, func() bool {
				if o, err = policies.Get(t.Context(), "policy", metav1.GetOptions{}); err != nil {
					t.Fatal(err)
				}
				s := status(o)
				return len(s.Conditions) == 2 && s.Conditions[0].Status == "True" && s.Conditions[0].ObservedGeneration == condition.Generation(o.GetGeneration())
			})
			s := status(o)
			if s.Rules != rules || s.ObservedRevision == "" || revisions[s.ObservedRevision] {
				t.Errorf("%d rules: status %+v", rules, s)
			}
			revisions[s.ObservedRevision] = true
		}
	})
	t.Run("an API server that fails for a while, and a conflict", func(t *testing.T) {
		apply("down", nil)
		w, broken := brokenWriter(t, access)
		j := kube.Assessment{Key: key("down"), Resource: entries, LastGood: true, Generation: 1}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		eventually(t, text("down"), func() bool { s, _ := status("down"); return s.Digest() != 0 })
		leader.stop()
		for range 20 { // it fails, and fails, and is overtaken
			w.Judged([]kube.Assessment{j})
			w.Update(map[config.Key]Details{j.Key: {Gateway: "direct"}})
			<-broken.failed
		}
		if w.Pending() != 1 {
			t.Errorf("%d are pending", w.Pending())
		}
		broken.mend()
		eventually(t, text("down"), func() bool { return find("down", condition.Gateway).Message == "direct" })
		eventually(t, text("down"), func() bool { return w.Pending() == 0 })
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("the next leader goes on", func(t *testing.T) {
		apply("late", nil)
		standby.Update(map[config.Key]Details{key("mark"): {Gateway: "direct"}})
		standby.writing()
		eventually(t, text("late"), func() bool { return find("late", condition.Accepted).Status == "True" })
		eventually(t, text("mark"), func() bool { return find("mark", condition.Gateway).Status == "False" })
		if s, _ := status("mark"); len(s.Addresses) != 0 {
			t.Errorf("addresses %v are left", s.Addresses)
		}
	})
}

// outage is while the server cannot be reached. failed gets a value for calls that fail meanwhile.
type outage struct {
	over   atomic.Bool
	failed chan struct{}
}

func (o *outage) mend() { o.over.Store(true) }

// flaky is a transport that fails during an outage.
type flaky struct {
	http.RoundTripper
	outage *outage
}

func (f flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.outage.over.Load() {
		return f.RoundTripper.RoundTrip(r)
	}
	select {
	case f.outage.failed <- struct{}{}:
	default:
	}
	return nil, errors.New("the server is gone")
}

func (f flaky) WrappedRoundTripper() http.RoundTripper { return f.RoundTripper }

// brokenWriter is a writer that cannot reach the server until the outage is over.
func brokenWriter(t *testing.T, access *rest.Config) (*Writer, *outage) {
	t.Helper()
	broken := &outage{failed: make(chan struct{}, 1)}
	access = rest.CopyConfig(access)
	access.Wrap(func(rt http.RoundTripper) http.RoundTripper { return flaky{rt, broken} })
	w, err := New(access, Options{Settle: time.Millisecond, Rest: time.Millisecond, PerSecond: 200, RetryMin: 10 * time.Millisecond, RetryMax: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return w, broken
}
