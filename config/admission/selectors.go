package admission

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
)

// Selectors finds the Services and ServiceEntries of one namespace that select a workload, by a look at its labels alone.
type Selectors map[string][]selecting // by one of the labels that are asked for

type selecting struct {
	object *config.Object
	labels map[string]string
}

// NewSelectors looks at the objects of a namespace.
func NewSelectors(objects ...*config.Object) Selectors {
	s := Selectors{}
	for _, o := range objects {
		s.add(o)
	}
	return s
}

func (s Selectors) add(o *config.Object) {
	labels := workloadsOf(o)
	if len(labels) == 0 {
		return
	}
	first := sortedKeys(labels)[0]
	s[pair(first, labels[first])] = append(s[pair(first, labels[first])], selecting{o, labels})
}

func pair(key, value string) string { return key + "=" + value }

// workloadsOf are the labels of the workloads that an object leads to; nil of one that selects none.
func workloadsOf(o *config.Object) map[string]string {
	switch spec := o.Spec.(type) {
	case *corev1.Service:
		if spec.Spec.Type != corev1.ServiceTypeExternalName {
			return spec.Spec.Selector
		}
	case *networking.ServiceEntry:
		return spec.GetWorkloadSelector().GetLabels()
	}
	return nil
}

// of gives those that select a workload, in order.
func (s Selectors) of(labels map[string]string) (out []*config.Object) {
	for k, v := range labels {
		for _, x := range s[pair(k, v)] {
			if hasLabels(labels, x.labels) {
				out = append(out, x.object)
			}
		}
	}
	slices.SortFunc(out, func(a, b *config.Object) int { return a.Key.Compare(b.Key) })
	return out
}

// selectors are those of a namespace.
func (w *world) selectors(ns string) Selectors {
	if w.selectorsIn == nil {
		w.selectorsIn = map[string]Selectors{}
		for i := range w.objects {
			o := &w.objects[i]
			if len(workloadsOf(o)) == 0 {
				continue
			}
			if w.selectorsIn[o.Namespace] == nil {
				w.selectorsIn[o.Namespace] = Selectors{}
			}
			w.selectorsIn[o.Namespace].add(o)
		}
	}
	return w.selectorsIn[ns]
}

// anySelectors says whether anything that is known selects workloads.
func (w *world) anySelectors() bool {
	w.selectors("")
	return len(w.selectorsIn) > 0
}

// labelled are a namespace's Pods and WorkloadEntries by their labels, so that those with some are found without a look at the others.
type labelled map[string][]*config.Object

func (w *world) labelled(ns string) labelled {
	if w.labelledIn == nil {
		w.labelledIn = map[string]labelled{}
		for i := range w.objects {
			o := &w.objects[i]
			labels, is := LabelsOfWorkload(o)
			if !is {
				continue
			}
			if w.labelledIn[o.Namespace] == nil {
				w.labelledIn[o.Namespace] = labelled{}
			}
			for k, v := range labels {
				w.labelledIn[o.Namespace][pair(k, v)] = append(w.labelledIn[o.Namespace][pair(k, v)], o)
			}
		}
	}
	return w.labelledIn[ns]
}

// with gives those that have all of the labels, of which there is one.
func (l labelled) with(labels map[string]string) (out []*config.Object) {
	first := sortedKeys(labels)[0]
	for _, o := range l[pair(first, labels[first])] {
		if has, _ := LabelsOfWorkload(o); hasLabels(has, labels) {
			out = append(out, o)
		}
	}
	return out
}

// LabelsOfWorkload are a Pod's or a WorkloadEntry's, by which it is selected; false of another object.
func LabelsOfWorkload(o *config.Object) (map[string]string, bool) {
	switch spec := o.Spec.(type) {
	case *corev1.Pod:
		return o.Labels, true
	case *networking.WorkloadEntry:
		return workloadLabels(*o, spec), true
	}
	return nil, false
}
