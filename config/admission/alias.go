package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Services of type ExternalName are other names of hosts, and register nothing: registry.Alias.

// otherName is the host of which a Service is another name; "" of one that is none.
func otherName(s *corev1.Service) host.Name {
	if s.Spec.Type != corev1.ServiceTypeExternalName {
		return ""
	}
	n, err := host.ParseExact(registry.CanonicalHost(s.Spec.ExternalName))
	if err != nil {
		return ""
	}
	return n
}

// anotherName is the host that is meant by a name which Services of type ExternalName have for it; "" where nobody has it, or it is registered itself, or leads nowhere.
func (w *world) anotherName(n host.Name) (of host.Name) {
	for range registry.MostAliases + 1 {
		next := host.Name("")
		if spec := w.specs[n]; spec != nil && len(w.hosts[n]) == 0 {
			next = otherName(spec)
		}
		if next == "" {
			return of
		}
		n, of = next, next
	}
	return ""
}

// alias begins what is said of such a name.
func alias(of host.Name) string {
	return fmt.Sprintf("is another name of %s, by a Service of type ExternalName, ", of)
}
