package registrytest

import (
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/config"
)

// Elsewhere makes one change of what says which networks and clusters there are, or of what is in another one.
func (w *World) Elsewhere() config.Change {
	o := w.elsewhere()
	if w.rand.IntN(5) == 0 {
		delete(w.Objects, o.Key)
		return config.Change{Key: o.Key}
	}
	w.Objects[o.Key] = o
	return config.Change{Key: o.Key, Object: o}
}

func (w *World) elsewhere() *config.Object {
	network := map[string]string{"topology.istio.io/network": pick(w, []string{"east", "west", "north"})}
	cluster := pick(w, []string{"west", "north"})
	switch w.rand.IntN(7) {
	case 0:
		o := w.made(config.KindNamespace, "", "istio-system", &corev1.Namespace{}, nil)
		o.Labels, o.Cluster = network, pick(w, []string{"", cluster})
		return o
	case 1: // a network's gateway, or what says to be one
		s := w.gateway()
		s.Labels = network
		s.Spec.ExternalIPs = []string{pick(w, []string{"192.0.2.7", "192.0.2.8"})}
		o := w.made(config.KindService, pick(w, []string{"istio-system", "istio-system", "team-a"}), "eastwest", s, nil)
		o.Labels, o.Cluster = network, pick(w, []string{"", cluster})
		return o
	case 2:
		at := pick(w, [][2]string{{"default", "web"}, {"default", "other"}, {"team-a", "far"}, {"istio-system", "istio-egressgateway"}})
		s := w.service()
		s.Spec.Selector = map[string]string{"istio": "egressgateway"}
		o := w.made(config.KindService, at[0], at[1], s, nil)
		o.Cluster = cluster
		return o
	case 3:
		g := &networking.Gateway{Selector: map[string]string{"istio": "other"}, Servers: []*networking.Server{{
			Port: &networking.Port{Number: 15443, Protocol: "TLS", Name: "tls"}, Hosts: []string{pick(w, []string{"*.local", "team-a/*.local"})},
			Tls: &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_AUTO_PASSTHROUGH},
		}}}
		return w.made(config.KindGateway, "istio-system", "cross-network", g, nil)
	default:
		p := w.pod()
		p.ObjectMeta = metav1.ObjectMeta{Labels: p.Labels}
		if w.rand.IntN(3) > 0 {
			p.Labels["security.istio.io/tlsMode"] = "istio"
		}
		if w.rand.IntN(4) == 0 {
			p.Labels["topology.istio.io/network"] = network["topology.istio.io/network"]
		}
		o := w.made(config.KindPod, pick(w, Namespaces), pick(w, []string{"f1", "f2"}), p, nil)
		o.Cluster = cluster
		return o
	}
}
