package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/presence"
)

// TestConnected: the first page says how many proxies are connected, and of how many of them the log has nothing, to each reader of his namespaces'.
func TestConnected(t *testing.T) {
	connected := []presence.Proxy{
		{ID: "router~10.0.0.9~istio-egressgateway-7c.istio-system~istio-system.svc.cluster.local"}, // reports
		{ID: "sidecar~10.0.0.5~db-0.legacy~legacy.svc.cluster.local"},                              // likewise
		{ID: "sidecar~10.0.0.6~report-0.legacy~legacy.svc.cluster.local"},
		{ID: "sidecar~10.0.0.7~cart-0.shop~shop.svc.cluster.local"},
		{ID: "no node id"},
	}
	known := true
	h := guardedBy(t, func(o *Options) { o.Connected = func() ([]presence.Proxy, bool) { return connected, known } })
	says := func(who, want string, is bool) {
		t.Helper()
		status, text := as(t, h, who, http.MethodGet, "/")
		if status != http.StatusOK || strings.Contains(text, want) != is {
			t.Errorf("%s: %d, says %q: %t", who, status, want, !is)
		}
	}
	says("auditor", "<dd>5; of 3 the log has nothing</dd>", true)
	says("owner", "<dd>2; of 1 the log has nothing</dd>", true)
	connected = connected[:2]
	says("auditor", "<dd>2</dd>", true)
	known, connected = false, nil
	says("auditor", "Proxies that are connected", false)
}
