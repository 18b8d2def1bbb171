package admission

import (
	"istio.io/api/label"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
)

// knownNetworks are those that something names: the mesh settings, the label of the root namespace, and those of Services there, which are their networks' gateways.
func (w *world) knownNetworks() map[string]bool {
	if w.networks != nil {
		return w.networks
	}
	w.networks = map[string]bool{}
	note := func(name string) {
		if name != "" {
			w.networks[name] = true
		}
	}
	note(w.cfg.Topology.Network)
	for name := range w.cfg.Topology.Networks {
		note(name)
	}
	for i := range w.objects {
		o := &w.objects[i]
		switch spec := o.Spec.(type) {
		case *corev1.Namespace:
			if o.Name == w.cfg.RootNamespace {
				note(o.Labels[label.TopologyNetwork.Name])
			}
		case *corev1.Service:
			if o.Kind == config.KindService && o.Namespace == w.cfg.RootNamespace {
				note(spec.Labels[label.TopologyNetwork.Name])
				note(o.Labels[label.TopologyNetwork.Name])
			}
		}
	}
	return w.networks
}
