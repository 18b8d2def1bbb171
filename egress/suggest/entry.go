package suggest

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// entries makes the ServiceEntries for needs.
func (w *world) entries(needs map[needID]*need) (out []Change) {
	taken := map[config.Key]bool{}
	ids := slices.SortedFunc(maps.Keys(needs), func(a, b needID) int {
		return cmp.Or(strings.Compare(a.host, b.host), a.extend.Compare(b.extend))
	})
	for _, id := range ids {
		n := needs[id]
		c := Change{Evidence: lines(n.flows)}
		if n.guess {
			c.Notes = append(c.Notes, fmt.Sprintf("port %d is a guess where DNS refused the name: nobody got as far as to connect", guessedPort))
		}
		if id.extend != (config.Key{}) {
			c.Before = w.objects[id.extend]
			spec := proto.CloneOf(c.Before.Spec.(*networking.ServiceEntry))
			spec.Ports = append(spec.Ports, n.servicePorts()...)
			c.After = w.object(id.extend, c.Before, spec)
		} else {
			c.After = w.entry(n, taken)
		}
		if len(n.wild) > 0 {
			c.Notes = append(c.Notes, wildNote(n.host, n.wild))
		}
		if why := Refuses(c.After); why != "" {
			w.drop(needs, id, "admission would refuse it: "+why)
			continue
		}
		out = append(out, c)
	}
	return out
}

// entry registers a host: in the namespace that uses it and for that alone; in the root namespace, for those that use it, if they are several.
func (w *world) entry(n *need, taken map[config.Key]bool) *config.Object {
	spec := &networking.ServiceEntry{
		Hosts: []string{n.host}, Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS, Ports: n.servicePorts(),
	}
	name := policy.ObjectName(n.host)
	if _, err := netip.ParseAddr(n.host); err == nil {
		spec.Hosts = []string{policy.HostOfAddress(n.host)}
		spec.Resolution, spec.Addresses = networking.ServiceEntry_STATIC, []string{n.host}
		spec.Endpoints = []*networking.WorkloadEntry{{Address: n.host}}
		name = policy.ObjectName(spec.Hosts[0])
	}
	if strings.HasPrefix(n.host, "*") {
		spec.Resolution = networking.ServiceEntry_DYNAMIC_DNS
		name = "below-" + policy.ObjectName(n.host[2:])
	}
	namespaces := slices.Sorted(maps.Keys(n.in))
	namespace := namespaces[0]
	if spec.ExportTo = []string{"."}; len(namespaces) > 1 {
		namespace, spec.ExportTo = w.Snapshot.Mesh.RootNamespace, namespaces
	}
	return w.object(w.free(config.KindServiceEntry, namespace, name, taken), nil, spec)
}

func (n *need) servicePorts() (out []*networking.ServicePort) {
	for _, number := range slices.Sorted(maps.Keys(n.ports)) {
		out = append(out, &networking.ServicePort{
			Number: number, Name: fmt.Sprintf("%s-%d", strings.ToLower(n.ports[number]), number), Protocol: n.ports[number],
		})
	}
	return out
}
