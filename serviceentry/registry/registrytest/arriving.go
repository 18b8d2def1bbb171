package registrytest

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
)

// Pods are addresses of pods with proxies.
var Pods = []string{"10.4.0.5", "10.244.0.9"}

// Arriving makes one change of what leads to pods' own ports: a ServiceEntry of the mesh, or a Sidecar object; at times one goes.
func (w *World) Arriving() config.Change {
	ns := pick(w, Namespaces)
	var o *config.Object
	if w.rand.IntN(3) == 0 {
		o = w.made(config.KindSidecar, ns, "arriving", w.ingress(), nil)
	} else {
		o = w.aged(w.made(config.KindServiceEntry, ns, pick(w, []string{"leading", "leading-too"}), w.leading(), nil))
	}
	if w.rand.IntN(4) == 0 {
		delete(w.Objects, o.Key)
		return config.Change{Key: o.Key}
	}
	w.Objects[o.Key] = o
	return config.Change{Key: o.Key, Object: o}
}

func (w *World) ingress() *networking.Sidecar {
	s := &networking.Sidecar{WorkloadSelector: &networking.WorkloadSelector{Labels: map[string]string{"istio": "app"}}}
	for _, port := range []uint32{80, 8080, 9000} {
		if w.rand.IntN(2) == 0 {
			s.Ingress = append(s.Ingress, &networking.IstioIngressListener{
				Port:            &networking.SidecarPort{Number: port, Protocol: pick(w, []string{"HTTP", "TCP", "HTTPS"})},
				DefaultEndpoint: pick(w, []string{"", "127.0.0.1:8000", "0.0.0.0:8001", "[::1]:8002", "127.0.0.1:15000"}),
			})
		}
	}
	return s
}

// leading is an entry with endpoints that are pods, by their addresses or by their labels.
func (w *World) leading() *networking.ServiceEntry {
	e := &networking.ServiceEntry{
		Hosts: []string{pick(w, []string{"led.example", "led-too.example"})}, Resolution: networking.ServiceEntry_STATIC,
		Location: pick(w, []networking.ServiceEntry_Location{networking.ServiceEntry_MESH_INTERNAL, networking.ServiceEntry_MESH_INTERNAL, networking.ServiceEntry_MESH_EXTERNAL}),
	}
	for _, port := range []uint32{80, 8080, 15020} {
		if w.rand.IntN(2) == 0 {
			e.Ports = append(e.Ports, &networking.ServicePort{Number: port, Name: "p0", Protocol: pick(w, []string{"HTTP", "TCP", "TLS"}), TargetPort: pick(w, []uint32{0, 9000, 15090})})
		}
	}
	if w.rand.IntN(4) == 0 {
		e.WorkloadSelector = &networking.WorkloadSelector{Labels: map[string]string{"istio": "app"}}
		return e
	}
	for _, address := range Pods {
		if w.rand.IntN(2) == 0 {
			e.Endpoints = append(e.Endpoints, &networking.WorkloadEntry{Address: address, Ports: pick(w, []map[string]uint32{nil, {"p0": 8080}})})
		}
	}
	return e
}
