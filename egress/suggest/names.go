package suggest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/egress/seen"
)

// insideNames are suffixes of names that lead nowhere outside (RFC 6761, 6762, 8375, 9476), and what clouds and offices use likewise: a name
// below "internal" is where a cloud has its metadata.
var insideNames = []string{"localhost", "local", "internal", "home.arpa", "svc", "pod", "alt", "onion", "lan", "intranet", "corp", "home"}

// wrongName says why a text is no host that could be registered; "" if it is a name or an address.
func wrongName(text string) string {
	if ip, err := netip.ParseAddr(text); err == nil {
		if ip.Zone() != "" || ip.Unmap().String() != text {
			return "it is no address as they are written"
		}
		return ""
	}
	if n, err := host.ParseExact(text); err != nil || string(n) != text {
		return "it is no host name: whoever sent it wrote something else"
	}
	return ""
}

// wrongWorkload says why nothing can be written for a flow's workload; "" where its names are such as Kubernetes has.
func wrongWorkload(f *seen.Flow) string {
	if len(validation.IsDNS1123Label(f.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(f.Account)) > 0 {
		return "its workload's names are not those of a namespace and a service account"
	}
	return ""
}

// isInside says why a host is not suggested although it could be written: it is inside, whatever its name. allowed are the inside addresses
// that the mesh's settings let hosts have.
func isInside(name string, destinations []string, allowed inside.Allowed) string {
	if ip, err := netip.ParseAddr(name); err == nil {
		switch {
		case host.MadeUp(ip):
			return "the address is made up by the mesh"
		case allowed.Refuses(name, ip):
			return "the address is private, loopback, link-local or a metadata service's"
		}
		return ""
	}
	if !strings.Contains(name, ".") {
		return "a short name means something else in each namespace"
	}
	if i := slices.IndexFunc(insideNames, func(s string) bool { return strings.HasSuffix(name, "."+s) }); i >= 0 {
		return fmt.Sprintf("names below %s are inside, of the cluster, the cloud or the network", insideNames[i])
	}
	for _, d := range destinations {
		ip, err := netip.ParseAddr(strings.Trim(d, "[]"))
		if err == nil && !host.MadeUp(ip) && allowed.Refuses(name, ip) {
			return fmt.Sprintf("it was reached at %s, which is private, loopback, link-local or a metadata service's", ip)
		}
	}
	return ""
}

// shown makes a text that others wrote fit for a comment, a table and a terminal.
func shown(text string) string {
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:77], "") + "..."
	}
	if wrongName(text) == "" {
		return text
	}
	return fmt.Sprintf("%+q", text)
}
