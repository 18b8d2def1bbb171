package relay

import (
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// A cluster that changes is warmed anew: Envoy goes on with the one before until the new one has its endpoints, and waits for these to be sent again where it knows
// their name already; for 15 s, and then takes those that it knows. The controller sends them again, after the cluster (translate.View's order). A cluster that is asked for
// by name comes to Envoy on a stream of its own, so of the two either may be first there.

// warm sends Envoy endpoints that it has once more: it has taken clusters now that wait for them.
func (m *machine) warm(names []string) {
	k, j := m.kind(EndpointType), &job{}
	var lost []string
	for _, name := range names {
		version, has := k.has[name]
		if !has {
			continue // Envoy asks, or is being answered: that comes after the cluster
		}
		if r := m.latest(k, name, version); r != nil {
			j.resources = append(j.resources, r)
		} else {
			lost = append(lost, name)
		}
	}
	if len(j.resources) > 0 {
		m.send(k, j)
	}
	if len(lost) > 0 && k.asked {
		m.tell(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: k.url, ResourceNamesSubscribe: lost})
	}
}

// latest is a resource as Envoy has it or is being sent it; nil where its body is not here.
func (m *machine) latest(k *kind, name, version string) *discoveryv3.Resource {
	for _, j := range slices.Backward(k.inflight) {
		for _, r := range j.resources {
			if r.GetName() == name {
				return r
			}
		}
	}
	if kept, ok := k.table.Version(name); !ok || kept != version {
		return nil
	}
	r, _ := m.body(k, name)
	return r
}
