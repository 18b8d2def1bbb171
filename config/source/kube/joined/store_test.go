package joined

import (
	"context"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/machine"
	"github.com/sallyport/sallyport/config/source/machines"
	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) {
	leaks.Verify(m,
		goleak.IgnoreAnyFunction("github.com/sallyport/sallyport/e2e/world.startForever"),
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("net/http.(*http2ClientConn).readLoop"), goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"))
}

// scene is an API server with a group, and two replicas' stores.
type scene struct {
	*testing.T
	one, two *Store
}

func newScene(t *testing.T) *scene {
	t.Helper()
	access := apiserver.Start(t)
	client := kubernetes.NewForConfigOrDie(access)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := &scene{t, newStore(t, access, machine.Holder("system", "one")), newStore(t, access, machine.Holder("system", "two"))}
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "WorkloadGroup", "metadata": map[string]any{"name": "db", "namespace": "shop"},
		"spec": map[string]any{"template": map[string]any{"serviceAccount": "db"}},
	}}
	if _, err := s.one.groups.Namespace("shop").Create(t.Context(), group, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return s
}

func newStore(t *testing.T, access *rest.Config, replica string) *Store {
	t.Helper()
	s, err := New(access, replica)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// begin is when the machine came first.
var begin = time.Date(2030, 1, 1, 0, 0, 0, 5000, time.UTC)

// entry is what is to stand of a machine that came so long after begin.
func (s *scene) entry(after time.Duration) machines.Entry {
	s.Helper()
	a := netip.MustParseAddr("192.0.2.7")
	p := machine.Proxy{Namespace: "shop", Account: "db", Source: a, Group: "db", Host: "vm", Address: a}
	group := &config.Object{Key: p.GroupKey(), Spec: &networking.WorkloadGroup{
		Metadata: &networking.WorkloadGroup_ObjectMeta{Labels: map[string]string{"app": "db"}, Annotations: map[string]string{"team": "data"}},
		Template: &networking.WorkloadEntry{ServiceAccount: "db", Ports: map[string]uint32{"pg": 5432}},
		Probe:    &networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_TcpSocket{TcpSocket: &networking.TCPHealthCheckConfig{Port: 5432}}},
	}}
	o, err := machine.Entry(group, p)
	if err != nil {
		s.Fatal(err)
	}
	return machines.Entry{Proxy: p, Object: o, Connected: begin.Add(after)}
}

func (s *scene) held() *unstructured.Unstructured {
	s.Helper()
	o, err := s.one.entries.Namespace("shop").Get(context.Background(), "db-192.0.2.7", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.Fatal(err)
	}
	return o
}

// read is the object as the control plane's source reads it.
func (s *scene) read() config.Object {
	s.Helper()
	return s.decode(s.held())
}

func (s *scene) decode(o *unstructured.Unstructured) config.Object {
	s.Helper()
	o.SetManagedFields(nil)
	text, err := o.MarshalJSON()
	if err != nil {
		s.Fatal(err)
	}
	r := decode.File("cluster.json", text)
	if len(r.Objects) != 1 {
		s.Fatalf("%v", r.Findings)
	}
	return r.Objects[0]
}

func (s *scene) do(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// TestEntryInTheCluster: an entry is its group's, says who holds it, and is an endpoint while its condition says that the machine is well.
func TestEntryInTheCluster(t *testing.T) {
	s := newScene(t)
	e := s.entry(0)
	s.do(s.one.Put(t.Context(), e))
	o := s.held()
	owners := o.GetOwnerReferences()
	if len(owners) != 1 || owners[0].Kind != "WorkloadGroup" || owners[0].Name != "db" || owners[0].UID == "" {
		t.Errorf("owners %+v", owners)
	}
	notes := o.GetAnnotations()
	for name, want := range map[string]string{
		"istio.io/autoRegistrationGroup": "db", "istio.io/workloadController": "sallyport/system/one", "istio.io/connectedAt": "2030-01-01T00:00:00.000005Z",
		"istio.io/disconnectedAt": "", "team": "data", "proxy.istio.io/health-checks-enabled": "true",
	} {
		if notes[name] != want {
			t.Errorf("annotation %s is %q, want %q", name, notes[name], want)
		}
	}
	if s.read().Out == "" {
		t.Error("an endpoint before the probe has succeeded")
	}
	for _, well := range []bool{true, false, true} {
		e.Health = machines.Health{Known: true, Well: well, Why: map[bool]string{false: "refused"}[well]}
		s.do(s.one.Put(t.Context(), e))
		if out := s.read().Out; (out == "") != well {
			t.Errorf("well %v: %q", well, out)
		}
	}
	was := s.held().GetResourceVersion()
	s.do(s.one.Put(t.Context(), e))
	if s.held().GetResourceVersion() != was {
		t.Error("the same was written again")
	}
	e.Gone = begin.Add(time.Minute)
	s.do(s.one.Put(t.Context(), e))
	if s.held().GetAnnotations()["istio.io/disconnectedAt"] == "" {
		t.Error("not said when it went")
	}
	s.do(s.one.Remove(t.Context(), e))
	s.do(s.one.Remove(t.Context(), e))
	if s.held() != nil {
		t.Error("it stays")
	}
	s.do(s.one.Put(t.Context(), e))
	if s.held() != nil {
		t.Error("one that nobody is connected for was made")
	}
}

// TestProbeComesAndGoes: a machine that is served stays so while its group gets a probe that it passes, and what a probe said is forgotten with it.
func TestProbeComesAndGoes(t *testing.T) {
	s := newScene(t)
	probed := s.entry(0)
	probed.Health = machines.Health{Known: true, Well: true}
	plain := probed
	o := *probed.Object
	o.Annotations = maps.Clone(o.Annotations)
	delete(o.Annotations, decode.HealthChecks)
	plain.Object = &o
	s.do(s.one.Put(t.Context(), plain))
	seen, err := s.one.entries.Namespace("shop").Watch(t.Context(), metav1.ListOptions{ResourceVersion: s.held().GetResourceVersion()})
	s.do(err)
	defer seen.Stop()
	for range 2 {
		s.do(s.one.Put(t.Context(), probed))
		if s.held().GetAnnotations()[decode.HealthChecks] != "true" {
			t.Error("its probe is not said")
		}
		s.do(s.one.Put(t.Context(), plain))
		if list, _, _ := unstructured.NestedSlice(s.held().Object, "status", "conditions"); len(list) != 0 {
			t.Errorf("what a probe said stays without it: %v", list)
		}
	}
	for last := s.held().GetResourceVersion(); ; {
		event := <-seen.ResultChan()
		stood, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("%+v", event)
		}
		if out := s.decode(stood.DeepCopy()).Out; out != "" {
			t.Errorf("taken out in between: %s", out)
		}
		if stood.GetResourceVersion() == last {
			return
		}
	}
}

// TestReplicas: a machine is that replica's to which it came last, whatever the other hears late.
func TestReplicas(t *testing.T) {
	s := newScene(t)
	first, second := s.entry(0), s.entry(time.Minute)
	s.do(s.one.Put(t.Context(), first))
	seen := s.read()
	s.do(s.two.Put(t.Context(), second))
	holds := func(what string) {
		t.Helper()
		o := s.held()
		if o == nil || o.GetAnnotations()["istio.io/workloadController"] != "sallyport/system/two" || o.GetAnnotations()["istio.io/disconnectedAt"] != "" {
			t.Fatalf("%s: %v", what, o)
		}
	}
	s.do(s.one.Put(t.Context(), first))
	holds("the first still thinks that it has the stream")
	gone := first
	gone.Gone = begin.Add(time.Hour)
	s.do(s.one.Put(t.Context(), gone))
	holds("the first notices that it went")
	s.do(s.one.Remove(t.Context(), gone))
	holds("and its grace is over")
	s.do(s.one.Remove(t.Context(), machines.Entry{Left: &seen}))
	holds("somebody saw it left alone before")
	seen = s.read()
	s.do(s.one.Remove(t.Context(), machines.Entry{Left: &seen}))
	if s.held() != nil {
		t.Error("what nobody holds stays")
	}
}

// TestSomebodyElses: an entry that somebody wrote is neither written over nor removed.
func TestSomebodyElses(t *testing.T) {
	s := newScene(t)
	other := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry", "metadata": map[string]any{"name": "db-192.0.2.7", "namespace": "shop"},
		"spec": map[string]any{"address": "192.0.2.9"},
	}}
	if _, err := s.one.entries.Namespace("shop").Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if s.one.Put(t.Context(), s.entry(0)) == nil {
		t.Error("it was written over")
	}
	s.do(s.one.Remove(t.Context(), s.entry(0)))
	if s.held() == nil {
		t.Error("it is gone")
	}
	kept := s.held()
	kept.SetAnnotations(map[string]string{"istio.io/autoRegistrationGroup": "db", "istio.io/workloadController": "istiod-7d"})
	if _, err := s.one.entries.Namespace("shop").Update(t.Context(), kept, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.one.Put(t.Context(), s.entry(0)); err == nil || !strings.Contains(err.Error(), "another control plane") {
		t.Errorf("one that another control plane keeps: %v", err)
	}
}
