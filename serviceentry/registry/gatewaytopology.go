package registry

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// frontedGateway is a pod whose agent is told something of the proxies in front of it. What a gateway's proxy is given goes by what it says itself (xds/serve); this is what it was told
// when it began, for questions about it.
type frontedGateway struct {
	key    config.Key
	labels map[string]string
	says   mesh.GatewayTopology
}

func (f *frontedGateway) keyOf() config.Key                 { return f.key }
func (f *frontedGateway) compare(other *frontedGateway) int { return f.key.Compare(other.key) }

// setFronted notes what a pod's agent is told.
func (b *batch) setFronted(c config.Change) {
	says := mesh.GatewayTopology{}
	if c.Object != nil {
		says = toldTopology(c.Object.Spec.(*corev1.Pod))
	}
	if !says.Said {
		if !slices.ContainsFunc(b.next.fronted[c.Key.Namespace], func(f *frontedGateway) bool { return f.key == c.Key }) {
			return
		}
		c.Object = nil
	}
	b.next.fronted = afterChange(b.next.fronted, c, func(o *config.Object) *frontedGateway {
		return &frontedGateway{o.Key, o.Spec.(*corev1.Pod).Labels, says}
	}, (*frontedGateway).keyOf, (*frontedGateway).compare)
}

// toldTopology is what one of a pod's containers is told by its environment, of which the last counts that has the name. Of what is wrong nothing counts.
func toldTopology(p *corev1.Pod) (says mesh.GatewayTopology) {
	for i := range p.Spec.Containers {
		for _, e := range p.Spec.Containers[i].Env {
			if e.Name == mesh.ProxyConfigVariable {
				says, _ = mesh.TopologyOf(e.Value)
			}
		}
		if says.Said {
			return says
		}
	}
	return says
}

// topologies are what pods of a namespace say that are meant, each once; of none that says anything, that.
func (s *Snapshot) topologies(ns string, meant func(labels map[string]string) bool) (out []mesh.GatewayTopology) {
	for _, f := range s.fronted[ns] {
		if meant(f.labels) && !slices.Contains(out, f.says) {
			out = append(out, f.says)
		}
	}
	if len(out) == 0 {
		return []mesh.GatewayTopology{{}}
	}
	return out
}

// TopologiesOf are what the pods of a namespace say that have these labels, each once, and those that say nothing left out; at least one.
func (s *Snapshot) TopologiesOf(ns string, labels map[string]string) []mesh.GatewayTopology {
	return s.topologies(ns, func(has map[string]string) bool { return selects(labels, has) })
}
