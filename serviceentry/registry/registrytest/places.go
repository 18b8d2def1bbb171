package registrytest

import (
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
)

// Place makes one change to where endpoints of a Service are, or to what asks for that.
func (w *World) Place() config.Change {
	var o *config.Object
	switch w.rand.IntN(6) {
	case 0:
		s := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.0.1.9", Selector: map[string]string{"istio": "egressgateway"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
		switch w.rand.IntN(6) {
		case 0:
			s.Spec.TrafficDistribution = new(pick(w, []string{"PreferClose", "PreferSameNode"}))
		case 1:
			s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
		}
		o = w.made(config.KindService, "istio-system", "pods", s, nil)
	case 1, 2:
		o = w.made(config.KindNode, "", pick(w, []string{"n1", "n2", "n3"}), w.node(), nil)
		o.Labels = w.topology()
	case 3, 4:
		o = w.made(config.KindPod, "istio-system", pick(w, []string{"g1", "g2"}), w.pod(), nil)
	default:
		r := w.rule()
		r.Host, r.WorkloadSelector, r.ExportTo, r.TrafficPolicy.Tls = "pods.istio-system.svc.cluster.local", nil, nil, nil
		r.TrafficPolicy.LoadBalancer = &networking.LoadBalancerSettings{LocalityLbSetting: w.locality()}
		o = w.made(config.KindDestinationRule, "istio-system", "pods", r, nil)
	}
	if w.rand.IntN(5) == 0 {
		delete(w.Objects, o.Key)
		return config.Change{Key: o.Key}
	}
	w.Objects[o.Key] = o
	return config.Change{Key: o.Key, Object: o}
}
