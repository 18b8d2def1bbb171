package e2e

import (
	"net"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// namesInside: a registered name that points into the gateway's own surroundings leads nowhere, and is recorded. The
// port is that of the gateway's own administration.
func (a *attack) namesInside(t *testing.T) {
	private := watch(t, a.scene.World.Control, net.JoinHostPort(world.ControlAddr.String(), "16000"))
	rebound := watch(t, a.scene.World.Control, net.JoinHostPort(world.ControlAddr.String(), "80"))
	tunnelled := watch(t, a.scene.World.Control, net.JoinHostPort(world.ControlAddr.String(), "443"))
	for host, addr := range insideHosts {
		if got := a.ask(t, a.app, "", get(host+":16000", "/server_info")...); strings.HasPrefix(got.status, "2") {
			t.Errorf("a request to %s: %s", host, got)
		}
		// 200 says that the tunnel is open to the listener behind, which may close it before that is said (503); what
		// counts is that nothing answers.
		if got := a.ask(t, a.app, "GET /server_info HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", connectTo(host+":16001")...); got.status != "503" && (got.status != "200" || got.body != "") {
			t.Errorf("a tunnel to %s: %s", host, got)
		}
		if addr != "" {
			a.refusedInside(t, host, addr)
		}
	}
	if got := a.ask(t, a.app, "", get("rebind.wild.test", "/")...); strings.HasPrefix(got.status, "2") {
		t.Errorf("a request to one of a wildcard: %s", got)
	}
	for _, host := range []string{"static.test", "any.localhost"} {
		if got := a.ask(t, a.app, "", get(host+":16000", "/server_info")...); strings.HasPrefix(got.status, "2") {
			t.Errorf("a request to %s: %s", host, got)
		}
	}
	got := a.ask(t, a.app, "\x16\x03\x01", connectTo("rebind.wild.test:443")...)
	t.Logf("a tunnel to one of a wildcard: %s", got)
	a.refusedInside(t, "rebind.wild.test", world.ControlAddr.String())
	for what, count := range map[string]func() int{"requests": private, "wildcard requests": rebound, "wildcard tunnels": tunnelled} {
		if n := count(); n > 0 {
			t.Errorf("%d %s reached a private address", n, what)
		}
	}
}

func (a *attack) refusedInside(t *testing.T, host, addr string) {
	t.Helper()
	r := a.recorded(t, host, func(r record.Record) bool { return r.Class == record.DNS })
	if r.Verdict != record.Denied || r.Path != record.PathGateway || r.Destination != addr || !strings.Contains(r.Reason, "--allow-private "+host) {
		t.Errorf("recorded: %+v", r)
	}
}
