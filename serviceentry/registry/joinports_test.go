package registry

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// TestPortsJoinOnce: what entries of one host register is gone through once: each of them gathering the ports of all behind it, every port among all, took a namespace's
// fifty objects for half a minute of the control plane's time, at each change.
func TestPortsJoinOnce(t *testing.T) {
	const entries, ports = 200, 250
	settings := mesh.Default()
	var list []*Service
	for i := range entries {
		spec := &networking.ServiceEntry{Hosts: []string{"a.com"}, Resolution: networking.ServiceEntry_DNS}
		for j := range ports {
			number := uint32(i*ports + j + 1)
			spec.Ports = append(spec.Ports, &networking.ServicePort{Number: number, Name: fmt.Sprintf("p%d", number), Protocol: "TLS"})
		}
		o := &config.Object{Key: config.Key{Kind: config.KindServiceEntry, Namespace: "a", Name: fmt.Sprintf("e%03d", i)}, Spec: spec}
		list = append(list, FromEntry(o, spec, "", &settings)...)
	}
	own := len(list[0].Ports)
	joinPorts(list)
	if n := len(list[0].Ports); n < entries*ports-20 { // some are the proxies' own
		t.Errorf("the first has %d ports", n)
	}
	for i, s := range list[1:] {
		if len(s.Ports) > own {
			t.Errorf("entry %d has %d ports, and counts nowhere", i+1, len(s.Ports))
		}
	}
}
