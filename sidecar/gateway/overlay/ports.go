package overlay

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// applyPorts does to a Service what a patch says of its ports, and gives the patch without them: Kubernetes' own merge finds a port by its number alone,
// and gateways may have one for TCP and UDP. Other objects stay as they are.
func applyPorts[T any](of *T, patch map[string]any) (*T, map[string]any, error) {
	s, is := any(of).(*corev1.Service)
	spec, _ := patch["spec"].(map[string]any)
	list, says := spec["ports"].([]any)
	if !is || !says {
		return of, patch, nil
	}
	s = s.DeepCopy()
	for i, item := range list {
		if err := applyPort(s, fmt.Sprintf("spec.ports[%d]", i), item.(map[string]any)); err != nil {
			return nil, nil, err
		}
	}
	spec, patch = maps.Clone(spec), maps.Clone(patch)
	delete(spec, "ports")
	patch["spec"] = spec
	return any(s).(*T), patch, nil
}

// applyPort does what a patch says of one port.
func applyPort(s *corev1.Service, at string, said map[string]any) error {
	i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		return said["port"] == float64(p.Port) && (said["protocol"] == nil && p.Protocol != corev1.ProtocolUDP || said["protocol"] == string(p.Protocol))
	})
	if i < 0 {
		return refuse(at+".port", said["port"], "the Service has no such port for this protocol (TCP, where none is written): write one of a listener")
	}
	if said["$patch"] != nil {
		s.Spec.Ports = slices.Delete(s.Spec.Ports, i, i+1)
		return nil
	}
	switch number, is := said["nodePort"].(float64); {
	case said["nodePort"] == nil:
	case !is || number != float64(int32(number)) || number < 1 || number > 65535:
		return refuse(at+".nodePort", said["nodePort"], "write a port number")
	default:
		s.Spec.Ports[i].NodePort = int32(number)
	}
	return nil
}
