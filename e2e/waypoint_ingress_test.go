package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// The ingress gateway by which the Service is asked from outside.
var (
	doorAddr = netip.MustParseAddr("10.77.0.66")
	doorID   = "cluster.local/ns/door/sa/door"
)

const doorObjects = `apiVersion: v1
kind: Service
metadata: {name: door, namespace: door}
spec: {clusterIP: 10.96.0.79, selector: {at: door}, ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp, port: 9000}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: door, namespace: beta}
spec:
  selector: {at: door}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [fronted.test]}, {port: {number: 9000, name: tcp, protocol: TCP}, hosts: ["*"]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: door, namespace: beta}
spec:
  hosts: [fronted.test]
  gateways: [door]
  http: [{route: [{destination: {host: web.beta.svc.cluster.local, port: {number: 9685}}}]}]
  tcp: [{match: [{port: 9000}], route: [{destination: {host: web.beta.svc.cluster.local, port: {number: 9691}}}]}]
`

// comesIn waits until a request from outside is answered so. The app says by whom it was asked, and how it was told that its client asked.
func (w *waypointTest) comesIn(t *testing.T, status int, by netip.Addr, path string) {
	t.Helper()
	transport := &http.Transport{DialContext: w.scene.World.Outside.DialContext, DisableKeepAlives: true}
	if err := world.Within(w.ctx, time.Minute, func() error {
		resp, text, err := fetchBy(w.ctx, transport, "http://"+netip.AddrPortFrom(doorAddr, 8080).String()+path, "fronted.test")
		if err != nil {
			return err
		}
		if fields := strings.Fields(text); resp.StatusCode != status || status == 200 && (len(fields) != 4 || fields[1] != "fronted.test" || !strings.HasPrefix(fields[2], by.String()+":") || fields[3] != "http") {
			return fmt.Errorf("%d %q", resp.StatusCode, text)
		}
		return nil
	}); err != nil {
		t.Errorf("from outside %s: %v, want %d by %s", path, err, status, by)
	}
}

// fromOutside holds that what comes in by an ingress gateway goes by the waypoint where the Service's namespace asks for that, and is held to what counts there;
// and straight otherwise.
func (w *waypointTest) fromOutside(t *testing.T) {
	w.write(t, "door.yaml", doorObjects)
	if _, err := w.scene.AddRouter(w.ctx, "door-1", "door", "door", doorAddr, "at=door"); err != nil {
		t.Fatal(err)
	}
	w.comesIn(t, 200, doorAddr, "/")
	w.comesIn(t, 200, doorAddr, "/secret") // around the waypoint, as ever
	asked := strings.Replace(waypointObjects, "istio.io/use-waypoint: waypoint}", `istio.io/use-waypoint: waypoint, istio.io/ingress-use-waypoint: "true"}`, 1)
	w.write(t, "waypoint.yaml", asked)
	w.comesIn(t, 403, waypointAddr, "/") // its account is none that the waypoint lets in
	asked = strings.Replace(asked, "cluster.local/ns/far/sa/one", "cluster.local/ns/far/sa/one, "+doorID, 1)
	w.write(t, "waypoint.yaml", asked)
	w.comesIn(t, 200, waypointAddr, "/")
	w.comesIn(t, 403, waypointAddr, "/secret")
	if err := world.Within(w.ctx, time.Minute, func() error { // the policy of another port comes beside that of HTTP
		n, err := w.taken(1, func(r io.Reader) io.Reader { return r })
		if err == nil && n != 1 {
			err = fmt.Errorf("%d bytes of 1 came", n)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	const size = 8 << 20
	for _, reads := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, func(r io.Reader) io.Reader { return takeSlowly(r) }} {
		if n, err := w.taken(size, reads); err != nil || n != size {
			t.Errorf("%d bytes of %d came (%v)", n, size, err)
		}
	}
}

// taken is how many bytes come in by the door, of so many that are asked for.
func (w *waypointTest) taken(size int64, reads func(io.Reader) io.Reader) (int64, error) {
	c, err := w.scene.World.Outside.DialContext(w.ctx, "tcp", netip.AddrPortFrom(doorAddr, 9000).String())
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	_, _ = fmt.Fprintf(c, "send %d\n", size)
	return io.Copy(io.Discard, reads(c))
}
