package agent

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestListenedTo: the ports of Envoy's listeners for TCP are known, as Envoy 1.40 says them.
func TestListenedTo(t *testing.T) {
	said := `{"listener_statuses":[
	 {"name":"0.0.0.0_8443","local_address":{"socket_address":{"address":"0.0.0.0","port_value":8443}},"additional_local_addresses":[{"socket_address":{"address":"::","port_value":8444}}]},
	 {"name":"udp","local_address":{"socket_address":{"protocol":"UDP","address":"0.0.0.0","port_value":53}}},
	 {"name":"internal","local_address":{"envoy_internal_address":{"server_listener_name":"internal"}}}]}`
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() != "/listeners?format=json" {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = io.WriteString(w, said)
	}))
	defer admin.Close()
	address := strings.TrimPrefix(admin.URL, "http://")
	if got, err := listenedTo(t.Context(), address); err != nil || !maps.Equal(got, map[uint16]bool{8443: true, 8444: true}) {
		t.Errorf("%v %v", got, err)
	}
	said = "Envoy is busy"
	if _, err := listenedTo(t.Context(), address); err == nil {
		t.Error("no error of what is no answer")
	}
}
