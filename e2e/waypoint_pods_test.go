package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// unlistedTCP is a port of the pods that neither a container nor a Service names.
const unlistedTCP = 9696

// podsReading is a policy for all that the waypoint stands before.
const podsReading = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: pods-reading, namespace: beta}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: waypoint}]
  action: DENY
  rules: [{to: [{operation: {ports: ["9685"], paths: ["/hidden"]}}]}]
`

// atPod asks a pod at its own address, with any Host.
func (w *waypointTest) atPod(t *testing.T, addr netip.Addr, host, path string, status int, from netip.Addr) {
	t.Helper()
	if err := world.Within(w.ctx, time.Minute, func() error {
		got, text, err := w.alpha.at(addr).get(w.ctx, 10*time.Second, host, frontedHTTP, path, nil)
		if err != nil {
			return err
		}
		if fields := strings.Fields(text); got != status || status == 200 && (len(fields) < 3 || !strings.HasPrefix(fields[2], from.String()+":")) {
			return fmt.Errorf("%d %q", got, text)
		}
		return nil
	}); err != nil {
		t.Errorf("%s of %s at %s: %v, want %d by %s", path, host, addr, err, status, from)
	}
}

// whoAt asks who comes to a pod's port, by bytes; "" where it is closed.
func (w *waypointTest) whoAt(ctx context.Context, addr netip.Addr, port uint16) (string, error) {
	c, err := w.alpha.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, port).String())
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = fmt.Fprintln(c, "who")
	all, err := io.ReadAll(c)
	return strings.TrimSpace(string(all)), err
}

func (w *waypointTest) bytesAtPod(t *testing.T, addr netip.Addr, port uint16, from string) {
	t.Helper()
	if err := world.Within(w.ctx, time.Minute, func() error {
		if who, err := w.whoAt(w.ctx, addr, port); who != from {
			return fmt.Errorf("%q (%w)", who, err)
		}
		return nil
	}); err != nil {
		t.Errorf("bytes at %s, port %d: %v, want %q", addr, port, err, from)
	}
}

// pods holds that what is sent to a pod's own address goes by the waypoint where that is for workloads: requests of any Host, and bytes, at any port; with the policies for the
// waypoint, and as who it is. A pod may opt out, and one whose waypoint is not there is closed.
func (w *waypointTest) pods(t *testing.T) {
	policy := func(mode string) {
		if err := w.scene.SetPolicy(w.ctx, mode); err != nil {
			t.Fatal(err)
		}
	}
	policy("ALLOW_ANY")
	w.write(t, "pods-reading.yaml", podsReading)
	w.atPod(t, betaAddr, betaAddr.String(), "/", 200, w.alpha.addr) // a waypoint is for Services, unless it says more
	w.bytesAtPod(t, betaAddr, unlistedTCP, w.alpha.addr.String())
	isFor := func(what string) { w.write(t, "waypoint.yaml", waypointFor(what)) }

	isFor("all")
	w.answers(t, 200, "v1 ", "/")
	for _, host := range []string{betaAddr.String(), "no.such.host.test", "web-1.beta.pod.cluster.local"} {
		w.atPod(t, betaAddr, host, "/", 200, waypointAddr)
		w.atPod(t, betaAddr, host, "/hidden", 403, netip.Addr{})
	}
	hidden := func() {
		_, _, _ = w.alpha.at(betaAddr).get(w.ctx, 10*time.Second, betaAddr.String(), frontedHTTP, "/hidden", nil)
	}
	w.recordedOf(t, "denied before the pod", betaAddr.String(), hidden, func(r record.Record) bool {
		return r.Reporter == record.ReporterDestination && r.Verdict == record.Denied && r.Claim == w.alpha.id && r.DecidedBy.Name == "pods-reading"
	})
	for _, port := range []uint16{frontedTCP, unlistedTCP} {
		w.bytesAtPod(t, betaAddr, port, waypointAddr.String())
	}
	w.wholeAtPod(t)
	w.strangersAtPods(t)

	isFor("workload") // what is for Services goes straight then
	w.atPod(t, betaAddr, betaAddr.String(), "/", 200, waypointAddr)
	if err := world.Within(w.ctx, time.Minute, func() error {
		_, text, err := w.ask(w.ctx, "/")
		if fields := strings.Fields(text); err == nil && (len(fields) < 3 || strings.HasPrefix(fields[2], waypointAddr.String()+":")) {
			err = fmt.Errorf("by %q", text)
		}
		return err
	}); err != nil {
		t.Errorf("the Service, of a waypoint for workloads: %v", err)
	}

	w.label(t, ", istio.io/use-waypoint: none")
	w.atPod(t, beta2Addr, beta2Addr.String(), "/hidden", 200, w.alpha.addr)
	w.label(t, ", istio.io/use-waypoint: lost")
	w.bytesAtPod(t, beta2Addr, frontedTCP, "")
	w.atPod(t, beta2Addr, beta2Addr.String(), "/", 503, netip.Addr{})
	w.label(t, "")
	w.atPod(t, beta2Addr, beta2Addr.String(), "/", 200, waypointAddr)

	policy("REGISTRY_ONLY") // pods of the mesh are not outside
	w.atPod(t, betaAddr, "no.such.host.test", "/", 200, waypointAddr)
	w.bytesAtPod(t, betaAddr, unlistedTCP, waypointAddr.String())
	policy("ALLOW_ANY")
	isFor("none")
	w.atPod(t, betaAddr, betaAddr.String(), "/hidden", 200, w.alpha.addr)
	w.write(t, "waypoint.yaml", waypointObjects)
	policy("REGISTRY_ONLY")
	w.answers(t, 403, "RBAC", "/secret")
	if err := w.scene.Config.Remove("pods-reading.yaml"); err != nil {
		t.Fatal(err)
	}
}

// wholeAtPod holds that every byte arrives.
func (w *waypointTest) wholeAtPod(t *testing.T) {
	t.Helper()
	const size = 8 << 20
	for _, port := range []uint16{frontedTCP, unlistedTCP} {
		c, err := w.alpha.host.DialContext(w.ctx, "tcp", netip.AddrPortFrom(betaAddr, port).String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(c, "send %d\n", size)
		if n, err := io.Copy(io.Discard, takeSlowly(c)); err != nil || n != size {
			t.Errorf("port %d: %d bytes of %d came (%v)", port, n, size, err)
		}
		_ = c.Close()
	}
}

// strangersAtPods holds that whoever has a certificate of the mesh gets by the waypoint to the pods behind it alone, and not to the mesh's own ports, whatever TLS name is said; and
// that requests which are said to be bytes do not get past rules for requests.
func (w *waypointTest) strangersAtPods(t *testing.T) {
	t.Helper()
	says := func(account, name, alpn, line string) string {
		conn, err := w.node.Host.DialContext(w.ctx, "tcp", netip.AddrPortFrom(waypointAddr, 15008).String())
		if err != nil {
			t.Fatal(err)
		}
		c := tls.Client(conn, &tls.Config{
			MinVersion: tls.VersionTLS12, ServerName: name, NextProtos: []string{alpn}, Certificates: []tls.Certificate{w.member(t, account)}, InsecureSkipVerify: true, // it is known who it is
		})
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(attackTimeout))
		if err := c.HandshakeContext(w.ctx); err != nil {
			return ""
		}
		_, _ = io.WriteString(c, line)
		all, _ := io.ReadAll(c) // how it ends is no matter
		return string(bytes.TrimSpace(all))
	}
	at := func(addr netip.Addr, port int) string { return fmt.Sprintf("pod~%s:%d~tcp", addr, port) }
	if got := says("one", at(betaAddr, unlistedTCP), "sallyport-pod", "who\n"); got != waypointAddr.String() {
		t.Errorf("a member of the mesh whom policies allow: %q", got)
	}
	if got := says("two", at(betaAddr, unlistedTCP), "sallyport-pod", "who\n"); got != "" {
		t.Errorf("an account that no policy allows: %q", got)
	}
	const hidden = "GET /hidden HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n"
	if got := says("one", at(betaAddr, frontedHTTP), "sallyport-pod", hidden); strings.Contains(got, " 200 ") {
		t.Errorf("a request that is said to be bytes gets past a rule for requests: %q", got)
	}
	if got := says("one", at(betaAddr, frontedHTTP), "sallyport-pod-http", hidden); !strings.Contains(got, " 403 ") {
		t.Errorf("a request, by itself: %q", got)
	}
	for _, name := range []string{
		at(alphaAddr, frontedHTTP), at(nodeAddr, 22), at(waypointAddr, 15021), at(betaAddr, 15008), at(betaAddr, 15001), at(betaAddr, 15006), fmt.Sprintf("pod~%s:015008~tcp", betaAddr),
		"pod~127.0.0.1:15000~tcp", "pod~~tcp", "pod", "web.beta.svc.cluster.local",
	} {
		for _, alpn := range []string{"sallyport-pod", "sallyport-pod-http"} {
			if got := says("one", name, alpn, "GET / HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n"); got != "" && !strings.Contains(got, " 503 ") {
				t.Errorf("to %s, %s: %q", name, alpn, got)
			}
		}
	}
}
