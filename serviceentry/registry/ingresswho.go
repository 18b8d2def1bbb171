package registry

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// ExitService picks, of the Services that select pods, the one that they would be an egress gateway by: the one that the mesh names as its default
// gateway, else the first that has GatewayPort. nil where there is none.
func (s *Snapshot) ExitService(ns string, labels map[string]string) *KubeService {
	list := s.GatewaysOf(ns, labels)
	i := slices.IndexFunc(list, func(k *KubeService) bool { return k.Ref == Ref(s.Mesh.DefaultGateway) })
	if i < 0 {
		i = slices.IndexFunc(list, func(k *KubeService) bool { return k.TunnelPort() != 0 })
	}
	if i < 0 {
		return nil
	}
	return list[i]
}

// DefaultTunnelPort is where a gateway listens whose Service names the target port instead of numbering it.
const DefaultTunnelPort = 8443

// TunnelPort is where the pods of an egress gateway's Service listen for sidecars; 0 where it is not a gateway's.
func (k *KubeService) TunnelPort() uint32 {
	for _, p := range k.Ports {
		if p.Number == GatewayPort {
			if !p.Explicit {
				return DefaultTunnelPort
			}
			return cmp.Or(p.TargetPort, DefaultTunnelPort)
		}
	}
	return 0
}

// IngressOf is what a router's pods are as an ingress gateway; false where they are none. The Service that says where they listen is the one that an
// egress gateway's would be, else the first that selects them. sessions is as of IngressFor.
func (s *Snapshot) IngressOf(ns string, labels map[string]string, sessions uint32) (Ingress, bool) {
	var service Ref
	if k := s.ExitService(ns, labels); k != nil {
		service = k.Ref
	} else if list := s.GatewaysOf(ns, labels); len(list) > 0 {
		service = list[0].Ref
	}
	return s.IngressFor(ns, labels, service, sessions)
}

// IngressCandidate are pods that are one ingress gateway, with the labels that they have, as far as they are known.
type IngressCandidate struct {
	Ingress
	Has map[string]string
}

// IngressesOf gives the ingress gateways that a Gateway object opens anything at, of Istio's or of the Gateway API, or whose pods a Service selects: as
// many as their labels tell apart. err says why there are none.
func (s *Snapshot) IngressesOf(key config.Key) ([]IngressCandidate, error) {
	var all gatewayPods
	if key.Kind == config.KindService {
		ref := Ref{key.Namespace, key.Name}
		k, ok := s.KubeService(ref)
		if !ok {
			return nil, fmt.Errorf("%s is not known", key)
		}
		all.at(s, k, func(map[string]string) bool { return true })
		return all.of(key)
	}
	g := s.gateways[key]
	if g == nil {
		return nil, fmt.Errorf("%s is not known, or of a class that others serve", key)
	}
	s.kube.Walk(func(ref Ref, k *KubeService) bool {
		if s.mayOpen(g, ref.Namespace) {
			all.at(s, k, func(labels map[string]string) bool { return selects(g.Selector, labels) })
		}
		return true
	})
	if o := s.World().Object(key); o != nil && key.Kind == config.KindKubeGateway && len(all.pods)+all.exits == 0 {
		all.pod(s, key.Namespace, gatewayapi.PodLabels(o)) // which the controller makes
	}
	all.say(s.World().Object(key))
	return all.of(key)
}

// say takes over what a Gateway of the Gateway API has its pods say, where none has said anything.
func (g *gatewayPods) say(o *config.Object) {
	if o == nil || o.Kind != config.KindKubeGateway {
		return
	}
	text, _ := gatewayapi.ProxyConfig(o.Annotations, o.Spec.(*gatewayv1.GatewaySpec))
	topology, _ := mesh.TopologyOf(text) // with one that is wrong nothing is deployed
	for at := range g.pods {
		if !g.pods[at].Topology.Said {
			g.pods[at].Topology = topology
		}
	}
}

// gatewayPods are those of ingress gateways, and how many pods were looked at that others leave by.
type gatewayPods struct {
	pods  []IngressCandidate
	exits int
}

// at looks at the pods of a Service that are meant, or, where none is known, at those that it would select.
func (g *gatewayPods) at(s *Snapshot, k *KubeService, meant func(labels map[string]string) bool) {
	if len(k.Selector) == 0 {
		return
	}
	for _, labels := range s.exitLabels(k.Ref) {
		if meant(labels) {
			g.pod(s, k.Ref.Namespace, labels)
		}
	}
}

func (g *gatewayPods) pod(s *Snapshot, ns string, labels map[string]string) {
	has := maps.Clone(labels)
	for _, key := range perPod {
		delete(has, key)
	}
	who, is := s.IngressOf(ns, labels, 0)
	if !is {
		g.exits++
		return
	}
	for _, who.Topology = range s.topologies(ns, func(l map[string]string) bool { return maps.Equal(l, labels) }) {
		if !slices.ContainsFunc(g.pods, func(p IngressCandidate) bool { return p.Ingress == who && maps.Equal(p.Has, has) }) {
			g.pods = append(g.pods, IngressCandidate{who, has})
		}
	}
}

func (g *gatewayPods) of(key config.Key) ([]IngressCandidate, error) {
	switch {
	case len(g.pods) > 0:
		return g.pods, nil
	case g.exits > 0 && key.Kind == config.KindService:
		return nil, fmt.Errorf("no Gateway selects the pods of %s, or they are an egress gateway, by which nothing comes in", key)
	case g.exits > 0:
		return nil, fmt.Errorf("the pods that %s selects are an egress gateway, by which nothing comes in", key)
	default:
		return nil, fmt.Errorf("no Service of pods that %s selects is known", key)
	}
}

// LacksPort says whether nobody comes to a server by a Service of an ingress gateway's pods: they have some, and none has its port, or leads to where the pods listen for it.
func (s *Snapshot) LacksPort(i Ingress, server *IngressServer) bool {
	services := s.ingressServices(i)
	for _, k := range services {
		if svc := s.GatewayService(k.Ref); svc != nil && svc.Headless() { // whose clients come to the pods themselves
			return false
		}
		for _, p := range k.Ports {
			if (p.Protocol == UDP) == (server.Serves == ServesDatagrams) && (p.Named || p.TargetPort == server.Listen || p.Number == server.Port && !k.Untranslated) {
				return false
			}
		}
	}
	return len(services) > 0
}

// Lacks is the Gateway, and its server, for which the pods listen where none of their Services leads (LacksPort); false where one does.
func (s *Snapshot) Lacks(i Ingress, port uint32) (gateway config.Key, server int, lacks bool) {
	for _, o := range s.Opened(i).Servers {
		if o.Port == port && o.Serves != NotServed && o.Serves != ServesDatagrams {
			return o.Gateway.Key, o.Index, s.LacksPort(i, o)
		}
	}
	return config.Key{}, 0, false
}

// Listens is where an ingress gateway's pods listen for a port as its clients know it.
func (s *Snapshot) Listens(i Ingress, port uint32) uint32 {
	return listensAt(s.ingressServices(i), port, false)
}
