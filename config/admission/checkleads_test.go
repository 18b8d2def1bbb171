package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestEntriesBeyond: of a namespace's entries that lead to more than counts the youngest is told so, and nobody else.
func TestEntriesBeyond(t *testing.T) {
	entry := func(ns, name string, age, endpoints int) config.Object {
		spec := &networking.ServiceEntry{Hosts: []string{name + ".test"}, Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC}
		for i := range 100 {
			spec.Ports = append(spec.Ports, &networking.ServicePort{Number: uint32(2000 + i), Name: fmt.Sprint("tcp-", i), Protocol: "TCP"})
		}
		for i := range endpoints {
			spec.Endpoints = append(spec.Endpoints, &networking.WorkloadEntry{Address: fmt.Sprintf("10.1.%d.%d", i/256, i%256)})
		}
		key := config.Key{Kind: config.KindServiceEntry, Namespace: ns, Name: name}
		return config.Object{Key: key, Created: time.Unix(int64(age), 0), Spec: spec}
	}
	half := registry.MostLeads / 100 / 2
	var told []string
	for _, f := range admission.Check([]config.Object{entry("shop", "a-younger", 2, half+1), entry("shop", "older", 1, half), entry("other", "alone", 3, 2*half)}, mesh.Default()) {
		if strings.Contains(f.Message, "goes beyond") {
			told = append(told, fmt.Sprint(f.Severity, " ", f.Key.Namespace, "/", f.Key.Name))
		}
	}
	if fmt.Sprint(told) != "[warning shop/a-younger]" {
		t.Errorf("told are %q", told)
	}
}
