package mesh

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// accounts reads service accounts, NAMESPACE/NAME.
func (b *block) accounts(at string, v any) (out []string) {
	for path, s := range b.texts(at, v) {
		namespace, name, _ := strings.Cut(s, "/")
		if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			b.add(path, s, "is no service account", `write NAMESPACE/NAME as in "istio-system/sallyport-node"`)
			continue
		}
		out = append(out, s)
	}
	return out
}
