package registry

import (
	"strings"

	"github.com/sallyport/sallyport/config"
)

// clusterSuffix ends the names of Kubernetes services.
const clusterSuffix = ".svc.cluster.local"

// clusterNames knows what names mean in the cluster.
type clusterNames struct {
	kube kubeServices
	root string // namespace
}

// isClusterName says whether an entry's host means something of the cluster, so that it does not count for ns.
func (s *Snapshot) isClusterName(svc *Service, ns string) bool {
	return clusterNames{s.kube, s.Mesh.RootNamespace}.has(svc, ns)
}

// has says whether an entry's host is the cluster's for ns: the short name of a Service ("web.shop", "web.shop.svc", and
// in its namespace "web") for everybody; what pods below a Service are called ("db-0.db.shop") and patterns over short
// names ("*.db.shop", "*.shop") for all other namespaces than the entry's, but for entries of the root namespace or of the
// Service's. What can be told by a name alone, mesh.Config.Withheld says.
func (c clusterNames) has(svc *Service, ns string) bool {
	if svc.Source.Kind == config.KindService || c.kube.Len() == 0 {
		return false
	}
	name := strings.TrimSuffix(svc.Host, ".svc")
	labels := strings.Count(name, ".") + 1
	switch wildcard := svc.Wildcard(); {
	case labels > 3:
		return false
	case labels == 1:
		return !wildcard && ns != "" && c.isService(name, ns)
	case labels == 2 && !wildcard:
		service, in, _ := strings.Cut(name, ".")
		return c.isService(service, in)
	case svc.Namespace == ns || svc.Namespace == c.root:
		return false
	case labels == 2: // "*.shop"
		in := name[2:]
		return in != svc.Namespace && c.anyIn(in)
	default: // "db-0.db.shop", "*.db.shop"
		_, rest, _ := strings.Cut(name, ".")
		service, in, _ := strings.Cut(rest, ".")
		return in != svc.Namespace && c.isService(service, in)
	}
}

func (c clusterNames) isService(name, ns string) bool {
	_, ok := c.kube.Get(Ref{ns, name})
	return ok
}

func (c clusterNames) anyIn(ns string) (has bool) {
	c.kube.in(ns, func(*KubeService) bool { has = true; return false })
	return has
}

// noteKubeNames marks the hosts that mean another thing since a Service came or went.
func (b *batch) noteKubeNames(ref Ref) {
	short := ref.Name + "." + ref.Namespace
	for _, host := range [...]string{ref.Name, short, short + ".svc", "*." + ref.Namespace, "*." + ref.Namespace + ".svc"} {
		b.renamed[host] = true
	}
	for _, tail := range [...]string{short, short + ".svc"} {
		b.below(tail, func(host string) { b.renamed[host] = true })
	}
}

// noteShadowed marks the Kubernetes services, and the hosts with an alias, that have a host's name for a short one: "web",
// "web.default", "web.default.svc", or "*.web" of a headless one.
func (b *batch) noteShadowed(host string) {
	host = strings.TrimPrefix(host, "*.")
	if strings.HasSuffix(host, clusterSuffix) {
		b.beside[host] = true
		b.touchAliased(host)
		return
	}
	if labels := strings.Count(host, "."); labels > 2 || (labels == 2 && !strings.HasSuffix(host, ".svc")) {
		return
	}
	b.hosts.WalkPrefix(host+".", func(full string, _ []*Service) bool {
		if strings.HasSuffix(full, clusterSuffix) {
			b.beside[full] = true
		}
		return true
	})
	b.aliases.WalkPrefix(host+".", func(full string, _ *Alias) bool {
		b.touchAliased(full)
		return true
	})
}
