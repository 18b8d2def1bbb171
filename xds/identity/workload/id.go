package workload

import (
	"fmt"
	"net/netip"
	"strings"
)

// claim is what a node id says.
type claim struct {
	ip             netip.Addr
	pod, namespace string
}

// PodOf gives the name of the pod in a node id.
func PodOf(id string) (string, error) {
	c, err := parseID(id)
	return c.pod, err
}

// CheckID says what is wrong with a node id that is not of the form TYPE~IP~POD.NAMESPACE~DOMAIN.
func CheckID(id string) error {
	_, err := parseID(id)
	return err
}

// parseID reads TYPE~IP~POD.NAMESPACE~DOMAIN. A pod's name may hold dots, a namespace's not. Of the domain nothing is
// taken: it has to begin with the namespace, as Istio's agents write it.
func parseID(id string) (claim, error) {
	parts := strings.Split(id, "~")
	if len(parts) != 4 {
		return claim{}, fmt.Errorf("the id is not of the form TYPE~IP~POD.NAMESPACE~DOMAIN")
	}
	ip, err := netip.ParseAddr(parts[1])
	if err != nil || ip.Zone() != "" {
		return claim{}, fmt.Errorf("%q is no IP address", parts[1])
	}
	dot := strings.LastIndexByte(parts[2], '.')
	if dot <= 0 || dot == len(parts[2])-1 {
		return claim{}, fmt.Errorf("%q is not of the form POD.NAMESPACE", parts[2])
	}
	c := claim{ip: ip.Unmap(), pod: parts[2][:dot], namespace: parts[2][dot+1:]}
	if of, _, _ := strings.Cut(parts[3], "."); of != c.namespace {
		return claim{}, fmt.Errorf("the domain %q is not of the namespace %q", parts[3], c.namespace)
	}
	return c, nil
}
