package deploy

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// parametrized is what the tests' parameters make of a Gateway's objects: a number of pods, an autoscaler, a budget, an annotation of the Service.
func parametrized(objects []Object, meta metav1.ObjectMeta, parameters []Parameters) ([]Object, error) {
	for _, p := range parameters {
		if err := check(p); err != nil {
			return nil, err
		}
		deployment, service := objects[1].(*appsv1.Deployment), objects[2].(*corev1.Service)
		if n := p.Data["replicas"]; n != "" {
			deployment.Spec.Replicas = new(int32(n[0] - '0'))
		}
		if p.Data["ready"] != "" {
			deployment.Spec.MinReadySeconds = -1 // what the server refuses
		}
		if text := p.Data["note"]; text != "" {
			service.Annotations = map[string]string{"note": text}
		}
		if p.Data["autoscaler"] != "" {
			deployment.Spec.Replicas = nil
			objects = append(objects, &autoscalingv2.HorizontalPodAutoscaler{
				TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"}, ObjectMeta: meta,
				Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 9, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: meta.Name}},
			})
		}
		if p.Data["budget"] != "" {
			objects = append(objects, &policyv1.PodDisruptionBudget{
				TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}, ObjectMeta: meta,
				Spec: policyv1.PodDisruptionBudgetSpec{Selector: deployment.Spec.Selector},
			})
		}
	}
	return objects, nil
}

func check(p Parameters) error {
	if p.Data["wrong"] != "" {
		return BadParameters{Why: fmt.Errorf("ConfigMap %s: data.wrong: remove it", p.NamespacedName)}
	}
	return nil
}

// says writes a ConfigMap.
func (s *scene) says(namespace, name string, data map[string]string) {
	s.Helper()
	s.puts(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data})
}

func (s *scene) puts(m *corev1.ConfigMap) {
	s.Helper()
	maps := s.kube.CoreV1().ConfigMaps(m.Namespace)
	_, err := maps.Update(s.Context(), m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(s.Context(), m, metav1.CreateOptions{})
	}
	s.must(err)
}

// defaults writes a ConfigMap whose label names a class.
func (s *scene) defaults(name, class, note string) {
	s.Helper()
	s.puts(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name, Labels: map[string]string{defaultsLabel: class}}, Data: map[string]string{"note": note}})
}

// has waits until what is deployed of the Gateway is as it should be: how many pods, the Service's note, and whether there are an autoscaler and a budget.
func (s *scene) has(replicas int32, note string, autoscaler, budget bool) {
	s.Helper()
	s.becomes(fmt.Sprintf("%d pods, note %q, autoscaler %v, budget %v", replicas, note, autoscaler, budget), func() error {
		d, err := s.kube.AppsV1().Deployments(namespace).Get(s.Context(), "tuned-ours", metav1.GetOptions{})
		if err != nil {
			return err
		}
		service, err := s.kube.CoreV1().Services(namespace).Get(s.Context(), "tuned-ours", metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, noScaler := s.kube.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(s.Context(), "tuned-ours", metav1.GetOptions{})
		_, noBudget := s.kube.PolicyV1().PodDisruptionBudgets(namespace).Get(s.Context(), "tuned-ours", metav1.GetOptions{})
		if *d.Spec.Replicas != replicas || service.Annotations["note"] != note || apierrors.IsNotFound(noScaler) == autoscaler || apierrors.IsNotFound(noBudget) == budget {
			return fmt.Errorf("%d pods, note %q, %w, %w", *d.Spec.Replicas, service.Annotations["note"], noScaler, noBudget)
		}
		return nil
	})
}

// bad waits until a Gateway's state says what is wrong with its parameters.
func (s *scene) bad(want string) {
	s.Helper()
	s.state("tuned", func(state *State) bool {
		return state != nil && state.BadParameters && strings.Contains(state.Problem, want) && len(state.Addresses) == 1
	})
}

func (s *scene) good() {
	s.Helper()
	s.state("tuned", func(state *State) bool { return state != nil && state.Problem == "" && !state.BadParameters })
}

// TestParameters follows ConfigMaps on a real API server.
func TestParameters(t *testing.T) {
	s := start(t)
	s.says(system, "all", map[string]string{"note": "from the class"})
	s.says(namespace, "own", map[string]string{"replicas": "3"})
	g := s.gateway("tuned", "ours")
	refer := func(kind, name string) *gatewayv1.GatewayInfrastructure {
		return &gatewayv1.GatewayInfrastructure{ParametersRef: &gatewayv1.LocalParametersReference{Kind: gatewayv1.Kind(kind), Name: name}}
	}
	g.Spec.Infrastructure = refer("ConfigMap", "own")
	s.create(g)
	s.has(3, "", false, false)
	s.good()
	_, err := s.kube.CoreV1().Services(namespace).Patch(t.Context(), "tuned-ours", types.MergePatchType, []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}`), metav1.PatchOptions{}, "status")
	s.must(err)

	t.Run("they are followed", func(*testing.T) {
		s.says(namespace, "own", map[string]string{"replicas": "4", "note": "own", "budget": "yes"})
		s.has(4, "own", false, true)
		s.says(namespace, "own", map[string]string{"replicas": "2"})
		s.has(2, "", false, false)
	})
	t.Run("an autoscaler begins where people stopped", func(t *testing.T) {
		s.says(namespace, "own", map[string]string{"autoscaler": "yes"})
		s.has(2, "", true, false)
		scale := `{"spec":{"replicas":5}}` // what an autoscaler does
		_, err := s.kube.AppsV1().Deployments(namespace).Patch(t.Context(), "tuned-ours", types.MergePatchType, []byte(scale), metav1.PatchOptions{FieldManager: "autoscaler"}, "scale")
		s.must(err)
		s.says(namespace, "own", map[string]string{"autoscaler": "yes", "note": "later"})
		s.has(5, "later", true, false)
		s.says(namespace, "own", map[string]string{"note": "alone"})
		s.has(5, "alone", false, false)
	})
	t.Run("what is wrong changes nothing", func(*testing.T) {
		s.says(namespace, "own", map[string]string{"wrong": "yes", "note": "wrong"})
		s.bad("ConfigMap shop/own: data.wrong: remove it")
		s.says(namespace, "own", map[string]string{"ready": "-1", "note": "refused"})
		s.bad("spec.minReadySeconds")
		s.has(5, "alone", false, false)
		s.must(s.kube.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "own", metav1.DeleteOptions{}))
		s.bad("ConfigMap shop/own: there is none: make it")
		s.has(5, "alone", false, false)
		s.says(namespace, "own", map[string]string{"note": "again"})
		s.good()
		s.has(5, "again", false, false)
	})
	t.Run("another kind", func(*testing.T) {
		s.patch("tuned", `{"spec":{"infrastructure":{"parametersRef":{"kind":"Secret"}}}}`)
		s.bad(`kind "Secret" of group ""`)
		s.patch("tuned", `{"spec":{"infrastructure":{"parametersRef":{"kind":"ConfigMap"}}}}`)
		s.good()
	})
	t.Run("a class's", func(t *testing.T) {
		s.refer("all", system)
		s.has(5, "again", false, false) // the Gateway's own come last
		s.says(namespace, "own", map[string]string{"budget": "yes"})
		s.has(5, "from the class", false, true)
		s.says(system, "all", map[string]string{"wrong": "yes"})
		s.bad("ConfigMap sallyport-system/all: data.wrong")
		s.class("data.wrong: remove it")
		s.refer("own", namespace)
		s.class(`spec.parametersRef.namespace: "shop": a class's parameters are in the control plane's namespace: write sallyport-system`)
		s.has(5, "from the class", false, true)
		_, err := s.gateways.GatewayV1().GatewayClasses().Patch(t.Context(), "ours", types.MergePatchType, []byte(`{"spec":{"parametersRef":null}}`), metav1.PatchOptions{})
		s.must(err)
		s.class("")
		s.has(5, "", false, true)
	})
	t.Run("a class's by its label", func(t *testing.T) {
		s.defaults("given", "ours", "by the label")
		s.has(5, "by the label", false, true)
		s.says(system, "all", map[string]string{"note": "by the name"})
		s.refer("all", system) // which counts after it
		s.has(5, "by the name", false, true)
		s.says(system, "all", map[string]string{"unread": "yes"})
		s.has(5, "by the label", false, true)
		s.defaults("second", "ours", "another")
		s.bad("ConfigMaps sallyport-system/given and sallyport-system/second: both have the label")
		s.class("keep one")
		s.has(5, "by the label", false, true)
		s.defaults("second", "theirs", "another")
		s.good()
		s.class("")
		s.must(s.kube.CoreV1().ConfigMaps(system).Delete(t.Context(), "given", metav1.DeleteOptions{}))
		s.has(5, "", false, true)
	})
	t.Run("none", func(*testing.T) {
		s.patch("tuned", `{"spec":{"infrastructure":null}}`)
		s.has(5, "", false, false)
	})
}

// refer has the class name a ConfigMap.
func (s *scene) refer(name, namespace string) {
	s.Helper()
	_, err := s.gateways.GatewayV1().GatewayClasses().Patch(s.Context(), "ours", types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"parametersRef":{"group":"","kind":"ConfigMap","name":%q,"namespace":%q}}}`, name, namespace), metav1.PatchOptions{})
	s.must(err)
}

// class waits until this is told of the class's parameters.
func (s *scene) class(want string) {
	s.Helper()
	s.becomes("the class's problem is "+want, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if got := s.classes["ours"]; want == "" && got != "" || !strings.Contains(got, want) {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}
