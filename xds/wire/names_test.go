package wire

import (
	"regexp"
	"strings"
	"testing"
)

// TestNoSubsetIsCalledSo: a DestinationRule may call its subsets by letters, digits and hyphens, and none of them has a cluster of our own.
func TestNoSubsetIsCalledSo(t *testing.T) {
	subset := regexp.MustCompile(`^[A-Za-z0-9-]*$`)
	const host = "web.shop.svc.cluster.local"
	for _, name := range []string{
		GatewayCluster(443, host, true), WrappedCluster(443, host, host, ""), WrappedCluster(443, "a.test", host, "bank"), WrappedCluster(443, host, host, "bank"),
		UntouchedCluster(443, "", host), UntouchedCluster(443, "v1", host), DatagramCluster(53, 443, host), DatagramEndpoints(443, host),
	} {
		parts := strings.Split(name, "|")
		if len(parts) != 4 || parts[0] != "outbound" || parts[1] != "443" || parts[3] != host {
			t.Errorf("%s is no cluster of the host's port", name)
		} else if subset.MatchString(parts[2]) {
			t.Errorf("%s is the cluster of a subset %q, too", name, parts[2])
		}
	}
}
