package admission

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// checkAlias warns of a Service that is one name too many for a host.
func (w *world) checkAlias(r *report, s *corev1.Service) {
	if otherName(s) == "" {
		return
	}
	if w.aliasesBeyond == nil {
		w.aliasesBeyond = w.findAliasesBeyond()
	}
	if w.aliasesBeyond[r.of.Key] {
		r.warn("spec.externalName", s.Spec.ExternalName, fmt.Sprintf("namespace %s has more than %d Services of type ExternalName for this host, of which the oldest count, and not this one: no proxy knows the host by its name", r.of.Namespace, registry.MostAliasesOf),
			"name the host by one of the others, or remove some of these")
	}
}

// findAliasesBeyond finds those that do not count.
func (w *world) findAliasesBeyond() map[config.Key]bool {
	type place struct {
		namespace string
		of        host.Name
	}
	all, beyond := map[place][]*config.Object{}, map[config.Key]bool{}
	for i := range w.objects {
		o := &w.objects[i]
		if s, is := o.Spec.(*corev1.Service); is {
			if of := otherName(s); of != "" {
				at := place{o.Namespace, of}
				all[at] = append(all[at], o)
			}
		}
	}
	for _, list := range all {
		if len(list) <= registry.MostAliasesOf {
			continue
		}
		slices.SortFunc(list, func(a, b *config.Object) int {
			return cmp.Or(cmp.Compare(a.Created.Unix(), b.Created.Unix()), cmp.Compare(a.Name, b.Name))
		})
		for _, o := range list[registry.MostAliasesOf:] {
			beyond[o.Key] = true
		}
	}
	return beyond
}
