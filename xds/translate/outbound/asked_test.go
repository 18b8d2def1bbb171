package outbound

import (
	"testing"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
)

// TestFoundByAddressAsksForTheOneName: where a row has one name, what does not name it came by an address; elsewhere, and where the name is an address
// itself, it is asked whether there is an address.
func TestFoundByAddressAsksForTheOneName(t *testing.T) {
	for _, tt := range []struct {
		host  string
		names []string
		want  string // the one name
	}{
		{"external.com", nil, "external.com:"},
		{"external.com", []string{"ext.shop.svc.cluster.local"}, ""},
		{"*.external.com", nil, ""},
		{"203.0.113.9", nil, ""},
		{"2001:db8::1", nil, ""},
	} {
		h := &Host{SidecarHost: resolve.SidecarHost{Service: &registry.Service{Host: tt.host}, Names: tt.names}}
		m := h.foundByAddress()
		if got := m.GetStringMatch().GetPrefix(); got != tt.want || m.InvertMatch != (tt.want != "") || m.GetName() != ":authority" {
			t.Errorf("%s, with %q: %v, want all but %q", tt.host, tt.names, m, tt.want)
		}
	}
}
