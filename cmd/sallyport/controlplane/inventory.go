package controlplane

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/serviceentry"
	"github.com/sallyport/sallyport/serviceentry/admission"
	"github.com/sallyport/sallyport/serviceentry/mesh"
)

// inventory is the objects that stand, for those who ask beside the registry: who is a pod, what is a namespace
// labelled, how does an object get on with the others. Its methods may be called at the same time.
type inventory struct {
	mu      sync.RWMutex
	objects map[serviceentry.Key]*serviceentry.Object
	// namespaces holds a value when a namespace came or went since it was last taken.
	namespaces chan struct{}
}

func newInventory() *inventory {
	return &inventory{objects: map[serviceentry.Key]*serviceentry.Object{}, namespaces: make(chan struct{}, 1)}
}

func (v *inventory) apply(changes []serviceentry.Change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range changes {
		_, had := v.objects[c.Key]
		if c.Object == nil {
			delete(v.objects, c.Key)
		} else {
			v.objects[c.Key] = c.Object
		}
		if c.Key.Kind == serviceentry.KindNamespace && had != (c.Object != nil) {
			select {
			case v.namespaces <- struct{}{}:
			default:
			}
		}
	}
}

func (v *inventory) get(k serviceentry.Key) *serviceentry.Object {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.objects[k]
}

// Pod implements workload.Pods.
func (v *inventory) Pod(namespace, name string) (labels map[string]string, account string, ips []string, ok bool) {
	o := v.get(serviceentry.Key{Kind: serviceentry.KindPod, Namespace: namespace, Name: name})
	if o == nil {
		return nil, "", nil, false
	}
	pod := o.Spec.(*corev1.Pod)
	for _, ip := range pod.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	if len(ips) == 0 && pod.Status.PodIP != "" {
		ips = []string{pod.Status.PodIP}
	}
	return o.Labels, pod.Spec.ServiceAccountName, ips, true
}

// namespaceNames are those of all namespaces, sorted.
func (v *inventory) namespaceNames() []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []string
	for k := range v.objects {
		if k.Kind == serviceentry.KindNamespace {
			out = append(out, k.Name)
		}
	}
	slices.Sort(out)
	return out
}

// check says what an object that is about to be written would not do although it seems to, given the others.
func (v *inventory) check(o serviceentry.Object, cfg mesh.Config) []admission.Finding {
	all := []serviceentry.Object{o}
	v.mu.RLock()
	for other := range maps.Values(v.objects) {
		if other.Key != o.Key && other.Key.Kind != serviceentry.KindPod && other.Key.Kind != serviceentry.KindEndpointSlice {
			all = append(all, *other)
		}
	}
	v.mu.RUnlock()
	return slices.DeleteFunc(admission.Check(all, cfg), func(f admission.Finding) bool { return f.Key != o.Key })
}
