package inject

import (
	"fmt"
	"path"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Permissions say what the mesh's owner lets pods change of their proxies, where the change lets traffic around the proxy or
// takes the proxy from the mesh. The words for changes are mesh.InjectionChanges.
type Permissions interface {
	Permits(change, namespace string) bool
	Images(namespace string) []string // patterns of images that pods may bring, "*" for any text but "/"
}

// permits says whether the pod may make a change. Without permissions, as when files are injected before anybody applies them,
// everything is; who admits the pod looks again.
func (r *reader) permits(change string) bool {
	return r.permissions == nil || r.permissions.Permits(change, r.namespace)
}

// permitsImage says whether the pod may bring an image.
func (r *reader) permitsImage(image string) bool {
	return r.permits("proxyImage") || slices.ContainsFunc(r.permissions.Images(r.namespace), func(pattern string) bool {
		ok, err := path.Match(pattern, image)
		return ok && err == nil
	})
}

// notPermitted refuses a change.
func (r *reader) notPermitted(field, value, change, problem string) {
	r.mistakes = append(r.mistakes, Mistake{Field: field, Value: value, Problem: problem + ", which this mesh does not permit",
		Fix: fmt.Sprintf("remove it, or let the mesh's owner add {changes: [%s], namespaces: [%s]} to sallyport.injection.allow in the mesh's settings", change, r.namespace)})
}

// annotationNotPermitted is notPermitted of an annotation.
func (r *reader) annotationNotPermitted(name, value, change, problem string) {
	r.notPermitted(fmt.Sprintf("annotation %q", name), value, change, problem)
}

// customsPermitted looks at what the pod's author wrote of the injector's containers. How much they may use is free.
func (r *reader) customsPermitted(pod *corev1.Pod) {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name != ProxyName && c.Name != InitName {
			continue
		}
		image := c.Image
		c = withoutFree(c)
		c.Image = ""
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == accountMount })
		if len(c.VolumeMounts) == 0 {
			c.VolumeMounts = nil
		}
		if !reflect.DeepEqual(c, corev1.Container{Name: c.Name}) && !r.permits("containers") {
			r.notPermitted("container", c.Name, "containers", "the pod changes more of the injector's container than its resources")
		}
		if image != "" && image != autoImage && !r.permitsImage(image) {
			r.notPermitted(fmt.Sprintf("container %q: image", c.Name), image, "proxyImage", "the pod brings its own image of the proxy")
		}
	}
}
