package registry

import (
	"cmp"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/registry/ordered"
)

// kubeServices are the Services that there are, of the own cluster and of others.
type kubeServices struct {
	ordered.Keyed[Ref, *KubeService]
}

func newKubeServices() kubeServices {
	return kubeServices{ordered.NewKeyed[Ref, *KubeService](func(a, b Ref) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})}
}

// in goes through those of a namespace until f says false.
func (k kubeServices) in(ns string, f func(*KubeService) bool) {
	k.From(Ref{Namespace: ns}, func(ref Ref, s *KubeService) bool { return ref.Namespace == ns && f(s) })
}

// FullName is the name in the cluster that is made of a shorter one; "" where nothing has it: no Service, no other name of one, and no entry.
func (s *Snapshot) FullName(ref Ref) string {
	if k, ok := s.kube.Get(ref); ok {
		return k.Host
	}
	if s.aliases.Len() == 0 && s.find.inClusterForm == 0 {
		return ""
	}
	return ref.Host()
}
