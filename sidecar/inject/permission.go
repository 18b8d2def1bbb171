package inject

import (
	"fmt"
	"path"
	"reflect"
	"slices"

	"istio.io/api/annotation"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/sidecar/redirect"
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
		c.Resources, c.Image = corev1.ResourceRequirements{}, ""
		if !reflect.DeepEqual(c, corev1.Container{Name: c.Name}) && !r.permits("containers") {
			r.notPermitted("container", c.Name, "containers", "the pod changes more of the injector's container than its resources")
		}
		if image != "" && image != autoImage && !r.permitsImage(image) {
			r.notPermitted(fmt.Sprintf("container %q: image", c.Name), image, "proxyImage", "the pod brings its own image of the proxy")
		}
	}
}

// genuine refuses a pod that only says that it has its proxy (annotation sidecar.istio.io/status): the containers of an
// injector's names must be what this one makes, as far as traffic goes.
func (r *reader) genuine(pod *corev1.Pod, o options) {
	name := annotation.SidecarStatus.Name
	fake := func(problem string) {
		r.annotationNotPermitted(name, pod.Annotations[name], "containers", "the pod says that it has its proxy already, and "+problem)
	}
	if r.permits("containers") {
		return
	}
	find := func(list []corev1.Container, container string) *corev1.Container {
		i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == container })
		if i < 0 {
			return nil
		}
		return &list[i]
	}
	first := find(pod.Spec.InitContainers, InitName)
	switch {
	case !o.intercept:
	case first == nil:
		fake("nothing in it catches its traffic")
	case !slices.Equal(first.Args, o.initArgs) || len(first.Command) > 0 || first.Image != o.Image && !r.permitsImage(first.Image) || !equalEnv(first.Env, initEnv(o)) || len(first.EnvFrom) > 0:
		fake("its container " + InitName + " is not what this injector makes")
	}
	proxy := findProxy(&pod.Spec)
	if !slices.Equal(proxy.Args, proxyArgs(o)) || len(proxy.Command) > 0 || proxy.Image != o.Image && !r.permitsImage(proxy.Image) {
		fake("its container " + ProxyName + " is not what this injector makes")
	}
}

// equalEnv says whether the variables that count for the init step are the same; others may have been added.
func equalEnv(have, want []corev1.EnvVar) bool {
	counts := func(list []corev1.EnvVar) (out []string) {
		for _, e := range list {
			if redirect.ReadsVariable(e.Name) {
				out = append(out, e.Name+"="+e.Value)
			}
		}
		return out
	}
	return slices.Equal(counts(have), counts(want))
}
