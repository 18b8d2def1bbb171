package gateway

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/sidecar/gateway/overlay"
)

// parametrize does to a Gateway's objects what its class's parameters say, and then what its own do. datagrams says that a listener is for UDP.
func (g made) parametrize(o *Objects, datagrams bool, sets []*overlay.Set) (err error) {
	if err := g.mayLabel(datagrams, sets); err != nil {
		return err
	}
	if err := g.countedOnce(o, sets); err != nil {
		return err
	}
	if o.ServiceAccount, err = overlay.Apply(overlay.ServiceAccount, o.ServiceAccount, sets...); err != nil {
		return err
	}
	if o.Deployment, err = overlay.Apply(overlay.Deployment, o.Deployment, sets...); err != nil {
		return err
	}
	if o.Autoscaler != nil {
		o.Deployment.Spec.Replicas = nil // the settings, or the class's parameters, may say how many
	}
	if s := &o.Deployment.Spec.Strategy; s.Type == appsv1.RecreateDeploymentStrategyType {
		s.RollingUpdate = nil
	}
	if o.Service, err = overlay.Apply(overlay.Service, o.Service, sets...); err != nil {
		return err
	}
	if o.Autoscaler, err = whereThere(overlay.Autoscaler, o.Autoscaler, sets); err != nil {
		return err
	}
	o.Budget, err = whereThere(overlay.Budget, o.Budget, sets)
	return err
}

// whereThere patches an object that there is.
func whereThere[T any](key overlay.Key, of *T, sets []*overlay.Set) (*T, error) {
	if of == nil {
		return nil, nil
	}
	return overlay.Apply(key, of, sets...)
}

// mayLabel refuses labels of pods where something comes in by UDP: what denies there is looked for by the labels that the Gateway says.
func (g made) mayLabel(datagrams bool, sets []*overlay.Set) error {
	for _, s := range sets {
		if labels, says := s.Says(overlay.Deployment, "spec", "template", "metadata", "labels"); says && datagrams {
			return s.Wrong(overlay.Deployment, "spec.template.metadata.labels", labels, "the Gateway has a listener for UDP, whose policies are found by what the Gateway says: write them in spec.infrastructure.labels of the Gateway")
		}
	}
	return nil
}

// countedOnce makes the autoscaler, and the budget, of which parameters speak. Who says that an autoscaler counts the pods does not count them, too.
func (g made) countedOnce(o *Objects, sets []*overlay.Set) error {
	for _, s := range sets {
		if s.Has(overlay.Autoscaler) && o.Autoscaler == nil {
			o.Autoscaler = g.autoscaler()
		}
		if s.Has(overlay.Budget) && o.Budget == nil {
			o.Budget = g.budget()
		}
		if n, says := s.Says(overlay.Deployment, "spec", "replicas"); says && n != nil && o.Autoscaler != nil {
			return s.Wrong(overlay.Deployment, "spec.replicas", n, "the horizontalPodAutoscaler says how many there are: write its minReplicas and maxReplicas")
		}
	}
	if o.Autoscaler == nil {
		return nil
	}
	most := any(nil)
	var last *overlay.Set
	for _, s := range sets {
		if s.Has(overlay.Autoscaler) {
			last = s
		}
		if n, says := s.Says(overlay.Autoscaler, "spec", "maxReplicas"); says {
			most = n
		}
	}
	if most == nil {
		return last.Wrong(overlay.Autoscaler, "spec.maxReplicas", nil, "write how many pods there are at most")
	}
	return nil
}

// autoscaler is one whose parameters are still to be written.
func (g made) autoscaler() *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"}, ObjectMeta: g.meta(),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: g.name},
		},
	}
}

// budget is one whose parameters are still to be written.
func (g made) budget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}, ObjectMeta: g.meta(),
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: g.selector()}},
	}
}

// serviceType is the one that the last parameters say, or else kind.
func serviceType(kind corev1.ServiceType, sets []*overlay.Set) corev1.ServiceType {
	for _, s := range sets {
		if said, says := s.Says(overlay.Service, "spec", "type"); says {
			kind = corev1.ServiceType(said.(string))
		}
	}
	return kind
}

// takesDatagrams says whether one of a Gateway's ports is for UDP by a listener.
func takesDatagrams(of *gatewayv1.Gateway, more []Port) bool {
	for _, l := range of.Spec.Listeners {
		if l.Protocol == gatewayv1.UDPProtocolType {
			return true
		}
	}
	for _, p := range more {
		if p.Protocol == corev1.ProtocolUDP {
			return true
		}
	}
	return false
}
