package registry

import (
	"maps"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
)

// workload is a WorkloadEntry: an endpoint that is an object of its own, of whichever Services and ServiceEntries of its
// namespace select its labels, as they select pods.
type workload struct {
	labels map[string]string
	spec   *networking.WorkloadEntry
	out    bool // it is no endpoint now
}

// same says whether two are alike to everybody: what else is said of a machine, such as when it came, is for people.
func (w workload) same(o workload) bool {
	return w.out == o.out && maps.Equal(w.labels, o.labels) && proto.Equal(w.spec, o.spec)
}

// setWorkload gives the services and entries that may select the workload, before or now.
func (x *index) setWorkload(key config.Key, o *config.Object) map[config.Key]bool {
	in := x.workloads[key.Namespace]
	var both []map[string]string
	old, was := in[key]
	if was {
		both = append(both, old.labels)
		delete(in, key)
	}
	if o != nil {
		spec := o.Spec.(*networking.WorkloadEntry)
		labels := maps.Clone(spec.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, o.Labels) // the object's own win, as in Istio
		if in == nil {
			in = map[config.Key]workload{}
			x.workloads[key.Namespace] = in
		}
		now := workload{labels, spec, o.Out != ""}
		if in[key] = now; was && now.same(old) {
			return nil
		}
		both = append(both, labels)
	}
	return x.selecting(key.Namespace, both...)
}

// selecting gives the services and entries of a namespace that select any of the labels.
func (x *index) selecting(ns string, labels ...map[string]string) map[config.Key]bool {
	found := map[config.Key]bool{}
	mark := func(key config.Key, selector map[string]string) {
		for _, l := range labels {
			if len(selector) > 0 && selects(selector, l) {
				found[key] = true
			}
		}
	}
	for svc, spec := range x.services[ns] {
		mark(svc, spec.Spec.Selector)
	}
	for entry, selector := range x.entries[ns] {
		mark(entry, selector)
	}
	return found
}

// selected gives the endpoints of an entry that selects them: pods and workloads.
func (x *index) selected(ns string, labels map[string]string, r Resolution) []Endpoint {
	return sortedEndpoints(append(x.podEndpoints(ns, labels, nil), x.workloadEndpoints(ns, labels, r == DNS)...))
}

// workloadEndpoints gives the workloads of a namespace that carry the labels. Those without an address are reached in ways
// that there are none of here; names are endpoints only of what is resolved.
func (x *index) workloadEndpoints(ns string, selector map[string]string, names bool) []Endpoint {
	var out []Endpoint
	for _, w := range x.workloads[ns] {
		if w.spec.Address == "" || w.out || !selects(selector, w.labels) {
			continue
		}
		e := entryEndpoint(w.spec)
		e.Labels = w.labels
		if _, ok := host.Reachable(e.Address); !ok && !names && !isSocket(e) {
			continue
		}
		out = append(out, e)
	}
	return out
}
