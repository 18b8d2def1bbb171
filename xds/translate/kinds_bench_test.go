package translate_test

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// fleet is a registry with the views of many namespaces, each of which sees something of its own.
type fleet struct {
	r     *registry.Registry
	t     *translate.Translator
	views []*translate.View
}

const fleetNamespaces = 100

func newFleet(entries int) *fleet {
	f := &fleet{r: filled(entries), t: translate.NewTranslator()}
	var all []config.Change
	for i := range fleetNamespaces {
		all = append(all, rule(fmt.Sprintf("ns-%d", i), 0), scope(i, 0))
	}
	all = append(all, service(0))
	for i := range 10 {
		all = append(all, slice(i, 0))
	}
	f.r.Apply(all)
	s := f.r.Snapshot()
	f.views = append(f.views, f.t.Build(s, translate.Class{}))
	for i := range fleetNamespaces {
		ns := fmt.Sprintf("ns-%d", i)
		f.views = append(f.views, f.t.BuildOver(f.views[0], s, translate.Classify(s, translate.Node{ID: "sidecar~10.0.0.1~p." + ns + "~x", Namespace: ns})))
	}
	for _, class := range classes() {
		f.views = append(f.views, f.t.Build(s, class))
	}
	return f
}

// publish moves all views on and gives how many resources changed in them together.
func (f *fleet) publish(c config.Change) (refs int) {
	s, changed := f.r.Apply([]config.Change{c})
	f.t.Forget(changed)
	var common []resource.Ref
	for i, v := range f.views {
		var r []resource.Ref
		if v.Class.Common() == v.Class {
			f.views[i], r = f.t.Update(v, s, changed)
		} else {
			f.views[i], r = f.t.UpdateOver(v, f.views[0], common, s, changed)
		}
		if refs += len(r); i == 0 {
			common = r
		}
	}
	return refs
}

func object(kind config.Kind, ns, name string, version uint64, spec any, labels map[string]string) config.Change {
	key := config.Key{Kind: kind, Namespace: ns, Name: name}
	return config.Change{Key: key, Object: &config.Object{Key: key, Labels: labels, Spec: spec, Hash: version + 1}}
}

// rule is about a host of the namespace's own.
func rule(ns string, version uint64) config.Change {
	var i int
	_, _ = fmt.Sscanf(ns, "ns-%d", &i)
	return object(config.KindDestinationRule, ns, "rule", version, &networking.DestinationRule{
		Host:          fmt.Sprintf("a.service-%d.example.com", i),
		TrafficPolicy: &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE, Sni: fmt.Sprintf("v%d.example.com", version)}},
	}, nil)
}

func scope(i int, version uint64) config.Change {
	return object(config.KindSidecar, fmt.Sprintf("ns-%d", i), "default", version, &networking.Sidecar{
		Egress: []*networking.IstioEgressListener{{Hosts: []string{"./*", "*/*.service-" + fmt.Sprint(version%2) + ".example.com"}}},
	}, nil)
}

// virtualService leads a host of the namespace's own.
func virtualService(i int, version uint64) config.Change {
	return object(config.KindVirtualService, fmt.Sprintf("ns-%d", i), "routes", version, &networking.VirtualService{
		Hosts: []string{fmt.Sprintf("a.service-%d.example.com", i)},
		Http: []*networking.HTTPRoute{{
			Name:  fmt.Sprintf("v%d", version),
			Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: fmt.Sprintf("a.service-%d.example.com", i)}}},
		}},
	}, nil)
}

func service(version uint64) config.Change {
	return object(config.KindService, "ns-1", "web", version, &corev1.Service{Spec: corev1.ServiceSpec{
		ClusterIP: "10.96.0.7", Ports: []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "tcp", Port: 6000 + int32(version%2)}},
	}}, nil)
}

// slice is a tenth of a Service's thousand endpoints.
func slice(i int, version uint64) config.Change {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}}
	for n := range 100 {
		if n == 50 && version%2 == 1 {
			continue
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.1", i, n)}})
	}
	return object(config.KindEndpointSlice, "ns-1", fmt.Sprintf("web-%d", i), version, s, map[string]string{discoveryv1.LabelServiceName: "web"})
}

// BenchmarkKinds is what one change of each kind costs the registry and the views of 100 namespaces, the everybody's and a
// gateway's: it should not follow the number of hosts.
func BenchmarkKinds(b *testing.B) {
	kinds := []struct {
		name   string
		change func(version uint64) config.Change
	}{
		{"ServiceEntry", func(v uint64) config.Change { return entry(7, v) }},
		{"DestinationRule", func(v uint64) config.Change { return rule("ns-7", v) }},
		{"VirtualService", func(v uint64) config.Change { return virtualService(7, v) }},
		{"Sidecar", func(v uint64) config.Change { return scope(7, v) }},
		{"Service", service},
		{"EndpointSlice", func(v uint64) config.Change { return slice(3, v) }},
	}
	for _, n := range sizes {
		f := newFleet(n)
		version := uint64(0)
		for _, k := range kinds {
			b.Run(fmt.Sprintf("%s/entries=%d", k.name, n), func(b *testing.B) {
				b.ReportAllocs()
				refs := 0
				for b.Loop() {
					version++
					refs += f.publish(k.change(version))
				}
				b.ReportMetric(float64(refs)/float64(b.N), "resources/op")
			})
		}
	}
}
