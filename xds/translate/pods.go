package translate

import (
	"reflect"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/resource"
)

// BuildPods is the view of a node's pods, which its agent is given.
func BuildPods(pods []ambient.Pod) *View {
	next, _ := UpdatePods(emptyView(), nil, pods)
	return next
}

// UpdatePods makes the next view from the last one, which says what was. The references are of pods that differ; nothing is written
// again of those that do not.
func UpdatePods(v *View, was, pods []ambient.Pod) (*View, []resource.Ref) {
	told := make(map[string]ambient.Pod, len(was))
	for _, p := range was {
		told[p.Key()] = p
	}
	e := newEdit(v)
	now := make(map[string]bool, len(pods))
	for _, p := range pods {
		now[p.Key()] = true
		if last, ok := told[p.Key()]; !ok || !reflect.DeepEqual(last, p) {
			e.replace(nil, []*resource.Resource{resource.SealBytes(resource.Pod, p.Key(), p.Marshal())})
		}
	}
	for key := range told {
		if !now[key] {
			e.sets[resource.Pod].Delete(key)
			e.changed[resource.Ref{Type: resource.Pod, Name: key}] = true
		}
	}
	return e.commit()
}

// UnsupportedPod says why the proxy of a node cannot do for a pod what its sidecar would; "" where it can. All pods of a namespace share
// its tables, and nobody looks into requests that come: an object that would close what stays open closes all instead. That
// a Service has a shorter name in its own namespace makes no difference, since DNS has searched for it.
func UnsupportedPod(s *registry.Snapshot, namespace string, labels map[string]string) string {
	c := Classify(s, Node{ID: "sidecar~~.~", Namespace: namespace, Labels: labels})
	switch {
	case c.Scope.Name != "":
		return "the Sidecar " + c.Scope.Namespace + "/" + c.Scope.Name + " is about it"
	case c.Selected != "":
		return "a DestinationRule with a workloadSelector is about it"
	case s.NeedsSecrets(namespace):
		return "a DestinationRule of its namespace has its clients show certificates of a Secret or in files, which the proxy of a node has none of"
	}
	_, why := resolve.UnsupportedInbound(s, namespace, labels)
	return why
}
