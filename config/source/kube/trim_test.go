package kube

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sallyport/sallyport/config/fields"
	"github.com/sallyport/sallyport/config/mesh"
)

// TestLeanServiceKeepsWhatCounts: what a cluster's Service says, and config/fields says that it is applied or warned of, is kept.
func TestLeanServiceKeepsWhatCounts(t *testing.T) {
	full := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": "a"}, ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7"},
		Type: corev1.ServiceTypeLoadBalancer, ExternalName: "a.test", SessionAffinity: corev1.ServiceAffinityClientIP,
		InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyLocal), TrafficDistribution: new("PreferSameZone"),
	}}
	kept := trimService(full).object.Spec.(*corev1.Service)
	for _, f := range fields.Service {
		if f.Fate == fields.Idle || f.Path == "publishNotReadyAddresses" { // Kubernetes itself follows that
			continue
		}
		of := func(s *corev1.Service) any {
			v := reflect.ValueOf(s.Spec)
			for i := range v.NumField() {
				if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name == f.Path {
					return v.Field(i).Interface()
				}
			}
			t.Fatalf("a Service has no %s", f.Path)
			return nil
		}
		if reflect.ValueOf(of(full)).IsZero() || !reflect.DeepEqual(of(full), of(kept)) {
			t.Errorf("%s is %s, of %v there is %v", f.Path, f.Fate, of(full), of(kept))
		}
	}
}

// TestLeanPodAddresses: a pod keeps all its addresses, since its proxy may name any of them and serves all.
func TestLeanPodAddresses(t *testing.T) {
	pod := func(ips ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}, Status: corev1.PodStatus{PodIP: ips[0]}}
		for _, ip := range ips {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
		}
		return p
	}
	of := func(p *corev1.Pod) corev1.PodStatus { return trimPod(p).object.Spec.(*corev1.Pod).Status }
	both := pod("10.0.0.1", "fd00::1")
	if s := of(both); s.PodIP != "10.0.0.1" || !slices.Equal(s.PodIPs, both.Status.PodIPs) {
		t.Errorf("of two families: %+v", s)
	}
	if s := of(pod("10.0.0.1")); s.PodIP != "10.0.0.1" || s.PodIPs != nil {
		t.Errorf("one address is held twice: %+v", s)
	}
}

// TestLeanPodSidecar: who a pod is, and that it has a sidecar, is kept; what its other annotations say is not.
func TestLeanPodSidecar(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u", Annotations: map[string]string{"a": "b"}}}
	if o := trimPod(p).object; o.Annotations != nil || o.Spec.(*corev1.Pod).UID != "u" {
		t.Errorf("kept of it: %v, uid %q", o.Annotations, o.Spec.(*corev1.Pod).UID)
	}
	p.Annotations["sidecar.istio.io/status"] = `{"version": 1}`
	if o := trimPod(p).object; len(o.Annotations) != 1 {
		t.Errorf("an injected one keeps %v", o.Annotations)
	}
}

// TestLeanPodTopology: what a gateway's agent is told of the proxies in front of it is kept, and nothing else of its environment.
func TestLeanPodTopology(t *testing.T) {
	for text, want := range map[string]string{
		"{concurrency: 2}": "", "{gatewayTopology: {}}": `{"gatewayTopology":{}}`, "gatewayTopology: {numTrustedProxies: 65}": "", "gatewayTopology: [": "",
		"concurrency: 2\ngatewayTopology: {numTrustedProxies: 2}": `{"gatewayTopology":{"numTrustedProxies":2}}`,
	} {
		env := []corev1.EnvVar{{Name: "SECRET", Value: "s"}, {Name: mesh.ProxyConfigVariable, Value: "gatewayTopology: {numTrustedProxies: 7}"}, {Name: mesh.ProxyConfigVariable, Value: text}}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: env}}}}
		got, says := trimPod(p).object.Spec.(*corev1.Pod).Spec.Containers, []corev1.Container(nil)
		if want != "" {
			says = []corev1.Container{{Env: []corev1.EnvVar{{Name: mesh.ProxyConfigVariable, Value: want}}}}
		}
		if !reflect.DeepEqual(got, says) {
			t.Errorf("of %q is kept %+v, want %q", text, got, want)
		}
		p.Annotations = map[string]string{"sidecar.istio.io/status": "{}"}
		if got := trimPod(p).object.Spec.(*corev1.Pod).Spec.Containers; got != nil {
			t.Errorf("of a sidecar's is kept %+v", got)
		}
	}
}

// TestLeanPodProbes: which ports are probed over the network is kept, of pods whose probes nobody rewrote.
func TestLeanPodProbes(t *testing.T) {
	probe := func(h corev1.ProbeHandler) *corev1.Probe { return &corev1.Probe{ProbeHandler: h, PeriodSeconds: 9} }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		ReadinessProbe: probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/x", Port: intstr.FromInt32(8080)}}),
		LivenessProbe:  probe(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 9090}}),
		StartupProbe:   probe(corev1.ProbeHandler{Exec: &corev1.ExecAction{}}),
	}}}}
	kept := trimPod(pod).object.Spec.(*corev1.Pod).Spec.Containers
	if len(kept) != 1 || kept[0].ReadinessProbe.HTTPGet.Port.IntVal != 8080 || kept[0].LivenessProbe.GRPC.Port != 9090 || kept[0].StartupProbe != nil {
		t.Errorf("%+v", kept)
	}
	always := corev1.ContainerRestartPolicyAlways
	hook := func(port int32) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/x", Port: intstr.FromInt32(port)}}
	}
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: hook(81), PreStop: hook(82)}
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "first", Ports: []corev1.ContainerPort{{Name: "a", ContainerPort: 1}}},
		{Name: "beside", RestartPolicy: &always, StartupProbe: probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(83)}})},
		{Name: "quiet", RestartPolicy: &always, Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}}}},
	}
	spec := trimPod(pod).object.Spec.(*corev1.Pod).Spec
	if l := spec.Containers[0].Lifecycle; l.PostStart.HTTPGet.Port.IntVal != 81 || l.PostStart.HTTPGet.Path != "" || l.PreStop != nil {
		t.Errorf("hooks: %+v", l)
	}
	if list := spec.InitContainers; len(list) != 1 || list[0].Name != "" || list[0].StartupProbe.HTTPGet.Port.IntVal != 83 || *list[0].RestartPolicy != always {
		t.Errorf("native sidecars: %+v", list)
	}
	pod.Annotations = map[string]string{"sidecar.istio.io/status": "{}"}
	if kept := trimPod(pod).object.Spec.(*corev1.Pod).Spec; len(kept.Containers)+len(kept.InitContainers) != 0 {
		t.Errorf("with a sidecar: %+v", kept)
	}
}
