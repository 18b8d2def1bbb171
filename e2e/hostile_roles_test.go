package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// hostilePort is that of the hosts of this test, which all are one server. It answers reachedDenied for those that are denied.
const (
	hostilePort   = 9585
	reachedDenied = 299
	reachedPath   = "Reached" // a header of its answers
)

// serveHostile is that server.
func serveHostile(t *testing.T, s *story.Scene) {
	t.Helper()
	l, err := s.World.Outside.Listen(netip.AddrPortFrom(world.OutsideAddrs[0], hostilePort).String())
	if err != nil {
		t.Fatal(err)
	}
	serveReached(t, l)
}

// hostilePaths are paths that servers may take for others, with the status that each has where /admin/** is denied, and the rest of a host is not.
func hostilePaths(host string) map[string]int {
	return map[string]int{
		"/public": 200, "/": 200, "/administrator": 200, "/public?x=/admin/": 200,
		"/admin": 403, "/admin/": 403, "/admin/x": 403, "/ADMIN/x": 403, "/admin/x?y": 403, "//admin/x": 403, "/./admin/x": 403, "/%61dmin/x": 403, "/public/../admin/x": 403,
		"/admin%2fx": 403, "/admin%2Fx": 403, "/admin;v=1/x": 403, "/public/%2e%2e/admin/x": 403, "/\\admin/x": 403, "/%2561dmin": 403,
		"/public%c0%af../admin/x": 403, "/public/%c0%ae%c0%ae/admin/x": 403, "/%u0061dmin/x": 403, "/admin%0a/x": 403, "/admin%": 403, "/caf%C3%A9": 200,
		"http://" + host + "/admin/x": 403, "http://" + host + "/public": 200,
	}
}

// hostileRole is a proxy that keeps policies, for who comes by it.
type hostileRole struct {
	name   string
	host   string // that rules let through, but for /admin/**
	byConn bool   // its connections are for that host, which has what is asked of any other by them
	dial   func() (net.Conn, error)
}

// authority is its host as requests say it.
func (r hostileRole) authority(host string) string { return fmt.Sprintf("%s:%d", host, hostilePort) }

// ask sends a request as it is written, on a connection of its own.
func (r hostileRole) ask(method, path, host, headers string) (int, error) {
	c, err := r.dial()
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n", method, path, host, headers); err != nil {
		return 0, err
	}
	return statusOn(bufio.NewReader(c))
}

func statusOn(in *bufio.Reader) (int, error) {
	status, _, err := answerOn(in)
	return status, err
}

// answerOn reads an answer: its status, and the path that the server was asked for, if it was.
func answerOn(in *bufio.Reader) (status int, reached string, err error) {
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, "", err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header.Get(reachedPath), err
}

// TestHostileRequestsAtAllRoles holds that what cannot be fooled at the gateway cannot be where something leaves otherwise: the same requests have the same verdict.
func TestHostileRequestsAtAllRoles(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	w := waypointIn(ctx, t, s)
	a := w.ambientNode
	a.alpha = a.pod(t, "alpha", alphaAddr)
	serveHostile(t, s)
	a.write(t, "hostile.yaml", hostileObjects(s))
	for _, r := range hostileRoles(ctx, t, w) {
		t.Run(r.name, r.holds)
	}
}

// hostileObjects registers an allowed and a denied host for each way out, and a policy for each namespace that asks.
func hostileObjects(s *story.Scene) string {
	var objects strings.Builder
	objects.WriteString("apiVersion: v1\nkind: Namespace\nmetadata: {name: delta, labels: {by: waypoint, istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: beta}}\n")
	for way, in := range map[string]string{
		"gateway": "namespace: default", "straight": "namespace: default, annotations: {egress.sallyport.io/gateway: direct}", "front": "namespace: delta",
	} {
		for _, name := range []string{way, "denied-" + way} {
			s.Outside.Set(name+".hostile.test", time.Minute, world.OutsideAddrs[0])
			fmt.Fprintf(&objects, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s, %s}\n"+
				"spec: {hosts: [%s.hostile.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %d, name: http, protocol: HTTP}]}\n", name, in, name, hostilePort)
		}
	}
	fmt.Fprintf(&objects, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: pattern, namespace: default, annotations: {egress.sallyport.io/gateway: direct}}\n"+
		"spec: {hosts: [\"*.any.hostile.test\"], location: MESH_EXTERNAL, resolution: NONE, ports: [{number: %d, name: http, protocol: HTTP}]}\n", hostilePort)
	for _, ns := range []string{"default", "alpha", "far"} {
		fmt.Fprintf(&objects, "---\napiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: hostile, namespace: %s}\nspec:\n  rules:\n"+
			"  - {name: admin, hosts: ['*.hostile.test'], paths: [/admin/**], action: Deny}\n"+
			"  - {name: deletes, hosts: ['*.hostile.test'], methods: [DELETE], action: Deny}\n"+
			"  - {name: one, hosts: [denied-one.any.hostile.test], action: Deny}\n"+
			"  - {name: rest, hosts: ['*.any.hostile.test', gateway.hostile.test, straight.hostile.test, front.hostile.test], action: Allow}\n", ns)
	}
	return objects.String()
}

func hostileRoles(ctx context.Context, t *testing.T, w *waypointTest) []hostileRole {
	t.Helper()
	app := appOf(w.scene)
	from := func(c caller, host string) func() (net.Conn, error) {
		return func() (net.Conn, error) {
			addr, err := c.resolve(ctx, host)
			if err != nil {
				return nil, err
			}
			return c.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, hostilePort).String())
		}
	}
	there := func(c caller) func() (net.Conn, error) {
		return func() (net.Conn, error) {
			return c.host.DialContext(ctx, "tcp", netip.AddrPortFrom(world.OutsideAddrs[0], hostilePort).String())
		}
	}
	far := w.hboneClient(t, "one")
	return []hostileRole{
		{name: "sidecar, by a pattern", host: "one.any.hostile.test", dial: there(app)},
		{name: "node, by a pattern", host: "one.any.hostile.test", dial: there(w.alpha.caller)},
		{name: "gateway", host: "gateway.hostile.test", dial: from(app, "gateway.hostile.test")},
		{name: "sidecar", host: "straight.hostile.test", dial: from(app, "straight.hostile.test")},
		{name: "node", host: "straight.hostile.test", dial: from(w.alpha.caller, "straight.hostile.test")},
		{name: "waypoint", host: "front.hostile.test", byConn: true, dial: func() (net.Conn, error) {
			c, err := through(ctx, far, fmt.Sprintf("front.hostile.test:%d", hostilePort))
			if err != nil {
				return nil, err
			}
			return &timedTunnel{tunnelled: &tunnelled{hbone: c}}, nil
		}},
	}
}

// timedTunnel is a tunnel that ends at its deadline: a stream of HTTP/2 has none, and whoever waits for an answer that does not come would wait without end.
type timedTunnel struct {
	*tunnelled
	deadline *time.Timer
}

func (c *timedTunnel) SetDeadline(at time.Time) error {
	if c.deadline != nil {
		c.deadline.Stop()
	}
	c.deadline = time.AfterFunc(time.Until(at), func() { _ = c.hbone.Close() })
	return nil
}

func (c *timedTunnel) Close() error {
	if c.deadline != nil {
		c.deadline.Stop()
	}
	return c.tunnelled.Close()
}

// begins waits until the policy is in force at each of the proxy's threads.
func (r hostileRole) begins(t *testing.T) {
	t.Helper()
	own := r.authority(r.host)
	if err := world.Within(t.Context(), 2*time.Minute, func() error {
		for range 2 * nodeThreads {
			for path, want := range map[string]int{"/public": 200, "/admin/x": 403} {
				if got, err := r.ask("GET", path, own, ""); err != nil || got != want {
					return fmt.Errorf("%s: %d %w, want %d", path, got, err, want)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func (r hostileRole) holds(t *testing.T) {
	r.begins(t)
	own := r.authority(r.host)
	for path, want := range hostilePaths(own) {
		if got, err := r.ask("GET", path, own, ""); err != nil || got != want {
			t.Errorf("%s: %d %v, want %d", path, got, err, want)
		}
	}
	for _, override := range []string{"X-Http-Method-Override: GET", "X-Http-Method: GET", "X-Method-Override: GET"} {
		if got, err := r.ask("DELETE", "/public", own, override+"\r\n"); err != nil || got != 403 {
			t.Errorf("DELETE with %s: %d %v", override, got, err)
		}
	}
	for _, method := range []string{"delete", "Delete"} { // HTTP/1.1 has no such method at proxies, and servers read it as DELETE
		conn, err := r.dial()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if got := askByHTTP2(t, conn, "", header{":method", method}, header{":scheme", "http"}, header{":authority", own}, header{":path", "/public"}); got.status != "403" {
			t.Errorf("by HTTP/2, %s: %s", method, got)
		}
		_ = conn.Close()
	}
	for _, url := range []string{"X-Original-Url", "X-Rewrite-Url", "X-Envoy-Original-Path"} { // which say nothing of what is asked for
		if got, err := r.ask("GET", "/admin/x", own, url+": /public\r\n"); err != nil || got != 403 {
			t.Errorf("/admin/x with %s: %d %v", url, got, err)
		}
	}
	for _, path := range hostileDetours(own) {
		if got, err := r.ask("GET", path, own, ""); err == nil && got < 300 {
			t.Errorf("%s: %d", path, got)
		}
	}
	r.holdsHosts(t)
	r.holdsBodies(t)
	r.holdsForms(t)
	r.holdsLong(t)
	r.holdsExpect(t)
}

// hostileDetours are paths to /admin of which none may get there, whatever says no.
func hostileDetours(own string) []string {
	return []string{
		"/admin%00/x", "/public/..%2fadmin/x", "/public/..;/admin/x", "/public/%2e%2e;/admin/x", "/public/.%2e/admin/x", "/%2e%2e/admin/x", "///admin///x", "/admin%5cx", "/public/..\\admin/x",
		"/admin%09/x", "/%2fadmin/x", "/;/admin/x", "/.;/admin/x", "/admin/..;/x", "/%61%64%6d%69%6e", "/public/%252e%252e/admin/x", "HTTP://" + own + "/admin/x", "http://x@" + own + "/admin/x",
	}
}

// holdsLong: a head of up to about 60 KiB is served, whatever of it is long and however it comes; of a longer one there is an end.
func (r hostileRole) holdsLong(t *testing.T) {
	own := r.authority(r.host)
	head := func(path, headers string) string {
		return "GET /public" + path + " HTTP/1.1\r\nHost: " + own + "\r\n" + headers + "Connection: close\r\n\r\n"
	}
	long := func(n int) string { return "/" + strings.Repeat("x", n) }
	for _, c := range []struct {
		what, text string
		piece      int // bytes that are written at once; 0: all
		served     bool
	}{
		{"a path of 20 KiB", head(long(20<<10), ""), 0, true},
		{"a path of 50 KiB", head(long(50<<10), ""), 0, true},
		{"a query of 50 KiB", head("?q="+long(50<<10), ""), 0, true},
		{"a path of 20 KiB in pieces of 1000 bytes", head(long(20<<10), ""), 1000, true},
		{"a path of 20 KiB in pieces of 4 KiB", head(long(20<<10), ""), 4 << 10, true},
		{"a path of 20 KiB in pieces of 8 KiB", head(long(20<<10), ""), 8 << 10, true},
		{"a path of 20 KiB in pieces of 16 KiB", head(long(20<<10), ""), 16 << 10, true},
		{"50 KiB of small headers", head("", strings.Repeat("X-Small: "+strings.Repeat("y", 1013)+"\r\n", 50)), 0, true},
		{"120 KiB of small headers", head("", strings.Repeat("X-Small: "+strings.Repeat("y", 1013)+"\r\n", 120)), 0, false},
		{"a path of 120 KiB", head(long(120<<10), ""), 0, false},
	} {
		var statuses []int
		if err := r.readsPieces(c.text, c.piece, func(status int, _ string) { statuses = append(statuses, status) }); err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if served := slices.Equal(statuses, []int{http.StatusOK}); served != c.served {
			t.Errorf("%s: the answers are %v, want served %t", c.what, statuses, c.served)
		}
	}
}

// last is a request that is let through, and the connection's last: so that whatever becomes of what was before there is an end.
func (r hostileRole) last() string {
	return "GET /public HTTP/1.1\r\nHost: " + r.authority(r.host) + "\r\nConnection: close\r\n\r\n"
}

// forms are requests of other versions and forms than usual.
func (r hostileRole) forms() map[string]string {
	own, denied := r.authority(r.host), r.authority("denied-"+r.host)
	long := strings.Repeat("x", 20<<10)
	return map[string]string{
		"HTTP/0.9":                          "GET /admin/x\r\n\r\n",
		"HTTP/1.0 without a host":           "GET /admin/x HTTP/1.0\r\n\r\n",
		"HTTP/1.0":                          "GET /admin/x HTTP/1.0\r\nHost: " + own + "\r\n\r\n",
		"HTTP/1.0 elsewhere":                "GET /public HTTP/1.0\r\nHost: " + denied + "\r\n\r\n",
		"HTTP/1.1 without a host":           "GET /admin/x HTTP/1.1\r\n\r\n",
		"HTTP/1.2":                          "GET /admin/x HTTP/1.2\r\nHost: " + own + "\r\n\r\n",
		"a target elsewhere":                "GET http://" + denied + "/public HTTP/1.1\r\nHost: " + own + "\r\n\r\n",
		"a target elsewhere by HTTP/1.0":    "GET http://" + denied + "/public HTTP/1.0\r\n\r\n",
		"a Host elsewhere than the target":  "GET http://" + own + "/public HTTP/1.1\r\nHost: " + denied + "\r\n\r\n",
		"a target with a path":              "GET http://" + own + "/public/../admin/x HTTP/1.1\r\nHost: " + own + "\r\n\r\n",
		"a target of another scheme":        "GET https://" + own + "/admin/x HTTP/1.1\r\nHost: " + own + "\r\n\r\n",
		"CONNECT":                           "CONNECT " + own + " HTTP/1.1\r\nHost: " + own + "\r\n\r\nGET /admin/x HTTP/1.1\r\nHost: " + own + "\r\n\r\n",
		"CONNECT elsewhere":                 "CONNECT " + denied + " HTTP/1.1\r\nHost: " + own + "\r\n\r\nGET /public HTTP/1.1\r\nHost: " + denied + "\r\n\r\n",
		"OPTIONS of all":                    "OPTIONS * HTTP/1.1\r\nHost: " + denied + "\r\n\r\n",
		"lines that end in LF":              "GET /admin/x HTTP/1.1\nHost: " + own + "\n\n",
		"lines that end in LF, elsewhere":   "GET /public HTTP/1.1\nHost: " + denied + "\n\n",
		"one line that ends in LF":          "GET /public HTTP/1.1\r\nX: y\nHost: " + denied + "\r\nHost: " + own + "\r\n\r\n",
		"one line that ends in CR":          "GET /public HTTP/1.1\r\nX: y\rHost: " + denied + "\r\nHost: " + own + "\r\n\r\n",
		"a folded line":                     "GET /public HTTP/1.1\r\nHost: " + own + "\r\nX: y\r\n Host: " + denied + "\r\n\r\n",
		"a folded host":                     "GET /public HTTP/1.1\r\nHost: denied-\r\n " + own + "\r\n\r\n",
		"a header longer than what is read": "GET /admin/x HTTP/1.1\r\nHost: " + own + "\r\nX: " + strings.Repeat(long, 6) + "\r\n\r\n",
		"a long path":                       "GET /admin/" + long + " HTTP/1.1\r\nHost: " + own + "\r\n\r\n",
		"a path longer than what is read":   "GET /admin/" + strings.Repeat(long, 6) + " HTTP/1.1\r\nHost: " + own + "\r\n\r\n",
		"a long path of many steps":         "GET /admin/" + strings.Repeat("x/../", len(long)/5) + " HTTP/1.1\r\nHost: " + own + "\r\n\r\n",
		"a query before the path":           "GET ?/../admin/x HTTP/1.1\r\nHost: " + own + "\r\n\r\n",
		"two spaces":                        "GET  /admin/x HTTP/1.1\r\nHost: " + own + "\r\n\r\n",
		"a line before":                     "\r\n\r\nGET /admin/x HTTP/1.1\r\nHost: " + own + "\r\n\r\n",
		"the preface of HTTP/2":             "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	}
}

// holdsForms: requests of other versions and forms than usual are asked about as what a server makes of them, or not sent at all.
func (r hostileRole) holdsForms(t *testing.T) {
	for what, text := range r.forms() {
		if err := r.reads(text+r.last(), func(status int, reached string) {
			if status == reachedDenied && !r.byConn || strings.HasPrefix(strings.ToLower(reached), "/admin") {
				t.Errorf("%s: an answer is %d, of %.40q", what, status, reached)
			}
		}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// bodies are requests whose bodies may be taken for the next request.
func (r hostileRole) bodies() map[string]string {
	own := r.authority(r.host)
	const hidden = "GET /admin/x HTTP/1.1\r\nHost: "
	return map[string]string{
		"two lengths":               "POST /public HTTP/1.1\r\nHost: " + own + "\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n" + hidden + own + "\r\n\r\n",
		"a length and chunks":       "POST /public HTTP/1.1\r\nHost: " + own + "\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden + own + "\r\n\r\n",
		"another coding":            "POST /public HTTP/1.1\r\nHost: " + own + "\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden + own + "\r\n\r\n",
		"a space before the colon":  "POST /public HTTP/1.1\r\nHost: " + own + "\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden + own + "\r\n\r\n",
		"two hosts":                 "GET /public HTTP/1.1\r\nHost: " + own + "\r\nHost: denied-" + own + "\r\n\r\n",
		"a host on the second line": "GET /public HTTP/1.1\r\nHost:\r\n denied-" + own + "\r\n\r\n",
		"one after the other":       "GET /public HTTP/1.1\r\nHost: " + own + "\r\n\r\n" + hidden + own + "\r\n\r\n",
	}
}

// holdsBodies: what looks to one like a request's body, and to another like the next request, is neither let through nor read in two ways.
func (r hostileRole) holdsBodies(t *testing.T) {
	for what, text := range r.bodies() {
		if err := r.reads(text+r.last(), func(status int, reached string) {
			if status == reachedDenied || strings.HasPrefix(reached, "/admin") {
				t.Errorf("%s: an answer is %d, of %q", what, status, reached)
			}
		}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// reads sends text on a connection of its own, and hears all answers. It is an error if they have no end.
func (r hostileRole) reads(text string, hear func(status int, reached string)) error {
	return r.readsPieces(text, 0, hear)
}

// readsPieces is reads of a text that is written in pieces of some bytes; 0 is all at once.
func (r hostileRole) readsPieces(text string, piece int, hear func(status int, reached string)) error {
	c, err := r.dial()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	until := time.Now().Add(time.Minute)
	_ = c.SetDeadline(until)
	if piece == 0 {
		piece = len(text)
	}
	for part := range slices.Chunk([]byte(text), piece) {
		if _, err := c.Write(part); err != nil {
			return nil // it was closed before all was said
		}
	}
	for in := bufio.NewReader(c); ; {
		status, reached, err := answerOn(in)
		switch {
		case err != nil && time.Now().After(until):
			return errors.New("neither an answer nor an end within a minute")
		case err != nil:
			return nil
		}
		hear(status, reached)
	}
}

// holdsHosts: what a request says that it is for is what policies are asked about, or it goes where its connection is for, and nowhere else.
func (r hostileRole) holdsHosts(t *testing.T) {
	own, denied := r.authority(r.host), r.authority("denied-"+r.host)
	for _, host := range []string{denied, "DENIED-" + r.authority(r.host), r.authority("denied-" + r.host + "."), "denied-" + r.host} {
		if got, err := r.ask("GET", "/public", host, ""); got == reachedDenied || err == nil && (got == 200) != r.byConn {
			t.Errorf("Host: %s: %d", host, got)
		}
	}
	for _, host := range []string{ // names that somebody may take for the one that is denied
		"x@" + denied, "x:y@" + denied, r.host + ":y@" + denied, own + ",denied-" + own, own + " " + denied, denied + "%00", "denied-" + own + "#@" + own, own + "/@" + denied, "denied-" + r.host + ":0" + fmt.Sprint(hostilePort), "denied-" + r.host + ":", "denied-" + r.host + "..:" + fmt.Sprint(hostilePort),
		"%64enied-" + own, "[denied-" + r.host + "]:" + fmt.Sprint(hostilePort), "[::ffff:" + world.OutsideAddrs[0].String() + "]:" + fmt.Sprint(hostilePort),
	} {
		if got, err := r.ask("GET", "/public", host, ""); err == nil && got == reachedDenied {
			t.Errorf("Host: %s: it got there", host)
		} else if err == nil && got < 300 && strings.ContainsAny(host, ",@%#/ ") {
			t.Errorf("Host: %s: a server may take it for another one, and it went on: %d", host, got)
		}
	}
	for _, hosts := range [][2]string{{own, denied}, {denied, own}, {own, own}} {
		text := "GET /public HTTP/1.1\r\nHost: " + hosts[0] + "\r\nHost: " + hosts[1] + "\r\nConnection: close\r\n\r\n"
		if err := r.reads(text, func(status int, reached string) {
			if status < 300 || reached != "" {
				t.Errorf("Hosts %s and %s: %d", hosts[0], hosts[1], status)
			}
		}); err != nil {
			t.Error(err)
		}
	}
	kept, err := r.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kept.Close() }()
	_ = kept.SetDeadline(time.Now().Add(time.Minute))
	in := bufio.NewReader(kept)
	for i, host := range []string{own, denied} {
		if _, err := fmt.Fprintf(kept, "GET /public HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
			t.Fatal(err)
		}
		if got, err := statusOn(in); (got == 200) != (i == 0 || r.byConn) {
			t.Errorf("on one connection, %s: %d %v", host, got, err)
		}
	}
	for _, c := range []struct {
		authority, host, path string
		open                  bool
	}{
		{own, "", "/public", true}, {denied, "", "/public", r.byConn}, {denied, own, "/public", r.byConn}, {"", denied, "/public", r.byConn},
		{own, "", "//admin/x", false}, {own, "", "/public/%2e%2e/admin/x", false},
	} {
		conn, err := r.dial()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		fields := []header{{":method", "GET"}, {":scheme", "http"}, {":path", c.path}}
		if c.authority != "" {
			fields = append(fields, header{":authority", c.authority})
		}
		if c.host != "" {
			fields = append(fields, header{"host", c.host})
		}
		if got := askByHTTP2(t, conn, "", fields...); (got.status == "200") != c.open {
			t.Errorf("by HTTP/2, %s with :authority %q and host %q: %s", c.path, c.authority, c.host, got)
		}
		_ = conn.Close()
	}
}
