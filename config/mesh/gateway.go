package mesh

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Direct is the name of no gateway: sidecars connect to the external host themselves.
const Direct = "direct"

// Gateway names the Service of a gateway's pods.
type Gateway struct{ Namespace, Name string }

// IsDirect says whether there is no gateway.
func (g Gateway) IsDirect() bool { return g == Gateway{} }

// String gives the form that ParseGateway reads.
func (g Gateway) String() string {
	if g.IsDirect() {
		return Direct
	}
	return g.Namespace + "/" + g.Name
}

// ParseGateway reads "NAMESPACE/SERVICE" or "direct".
func ParseGateway(s string) (Gateway, error) {
	if s == Direct {
		return Gateway{}, nil
	}
	ns, name, ok := strings.Cut(s, "/")
	if !ok || len(validation.IsDNS1123Label(ns)) > 0 || len(validation.IsDNS1123Label(name)) > 0 {
		return Gateway{}, fmt.Errorf(`gateway %q is not of the form NAMESPACE/SERVICE: write it as in "istio-system/istio-egressgateway", or "direct" for none`, s)
	}
	return Gateway{Namespace: ns, Name: name}, nil
}
