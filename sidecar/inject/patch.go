package inject

import (
	"encoding/json"
	"fmt"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
)

// Patch gives the operations that make after of before, as JSON (RFC 6902), where Inject made after. They name what changed and nothing else: a pod from
// an API server that is newer than this program may have fields that are not in the types here, and must keep them.
// So containers are put in and taken out by their index, and what is different within the others is found field by field,
// with lists of equal length.
func Patch(before, after *corev1.Pod) ([]byte, error) {
	var ops []jsonpatch.Operation
	from, to := before.DeepCopy(), after.DeepCopy()
	ops = append(ops, takeOut(&from.Spec.Containers, "/spec/containers")...)
	ops = append(ops, takeOut(&from.Spec.InitContainers, "/spec/initContainers")...)
	takeOut(&to.Spec.Containers, "")
	takeOut(&to.Spec.InitContainers, "")
	to.Spec.Volumes = to.Spec.Volumes[:len(from.Spec.Volumes)]
	to.Spec.ImagePullSecrets = to.Spec.ImagePullSecrets[:len(from.Spec.ImagePullSecrets)]

	a, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	within, err := jsonpatch.CreatePatch(a, b)
	if err != nil {
		return nil, err
	}
	ops = append(ops, within...)
	ops = append(ops, putIn(after.Spec.InitContainers, len(to.Spec.InitContainers), "/spec/initContainers")...)
	ops = append(ops, putIn(after.Spec.Containers, len(to.Spec.Containers), "/spec/containers")...)
	ops = append(ops, appendTo(after.Spec.Volumes, len(from.Spec.Volumes), "/spec/volumes")...)
	ops = append(ops, appendTo(after.Spec.ImagePullSecrets, len(from.Spec.ImagePullSecrets), "/spec/imagePullSecrets")...)
	return json.Marshal(ops)
}

// takeOut removes the containers of the proxy's names.
func takeOut(containers *[]corev1.Container, path string) []jsonpatch.Operation {
	var ops []jsonpatch.Operation
	kept := (*containers)[:0]
	for _, c := range *containers {
		if c.Name != ProxyName && c.Name != InitName {
			kept = append(kept, c)
			continue
		}
		ops = append(ops, jsonpatch.NewOperation("remove", fmt.Sprintf("%s/%d", path, len(kept)), nil))
	}
	*containers = kept
	return ops
}

// putIn inserts the containers of the proxy's names at their places among others.
func putIn(containers []corev1.Container, others int, path string) []jsonpatch.Operation {
	if len(containers) == others {
		return nil
	}
	if others == 0 {
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", path, containers)}
	}
	var ops []jsonpatch.Operation
	for i, c := range containers {
		if c.Name == ProxyName || c.Name == InitName {
			ops = append(ops, jsonpatch.NewOperation("add", fmt.Sprintf("%s/%d", path, i), c))
		}
	}
	return ops
}

// appendTo adds what comes after the first n.
func appendTo[T any](items []T, n int, path string) []jsonpatch.Operation {
	switch {
	case len(items) == n:
		return nil
	case n == 0:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", path, items)}
	}
	var ops []jsonpatch.Operation
	for _, item := range items[n:] {
		ops = append(ops, jsonpatch.NewOperation("add", path+"/-", item))
	}
	return ops
}
