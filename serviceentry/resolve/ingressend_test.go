package resolve_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
)

// TestNoEndpointsAtIngressGateways: whoever writes an EndpointSlice has an ingress gateway connect to no cloud's metadata, and not to what is the mesh's own, in no form of their addresses.
func TestNoEndpointsAtIngressGateways(t *testing.T) {
	to := resolve.IngressTarget{Refused: []netip.Addr{netip.MustParseAddr("10.77.0.30")}}
	var list []registry.Endpoint
	for _, addr := range []string{
		"10.0.0.5", "127.0.0.1", "169.254.169.254", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "64:ff9b::a9fe:a9fe", "::ffff:127.0.0.1", "224.0.0.1", "fe80::1", "fe80::1%eth0",
		"10.77.0.30", "::ffff:10.77.0.30", "64:ff9b::a4d:1e", "2002:a4d:1e::", "fd00::5", "name.test",
	} {
		list = append(list, registry.Endpoint{Address: addr})
	}
	var got []string
	for _, e := range to.Connectable(list) {
		got = append(got, e.Address)
	}
	if want := []string{"10.0.0.5", "fd00::5"}; !slices.Equal(got, want) {
		t.Errorf("it connects to %q, want %q", got, want)
	}
}
