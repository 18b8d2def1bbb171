package e2e

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// greeting is what a polyglot says, with the address of who it talks to behind it.
const greeting = "hello "

// polyglot is a server outside that takes whatever comes on a port: TLS, HTTP, or lines of text.
type polyglot struct{ ca *outside.CA }

// addOther gives the hosts outside one address more, otherAddr, which no name leads to by itself.
func addOther(ctx context.Context, t *testing.T, s *story.Scene) {
	t.Helper()
	if _, err := s.World.Outside.Run(ctx, 0, "ip", "addr", "add", otherAddr.String()+"/24", "dev", "eth0"); err != nil {
		t.Fatal(err)
	}
}

// serveOther has a polyglot at that address.
func serveOther(ctx context.Context, t *testing.T, s *story.Scene, ports []uint16) {
	t.Helper()
	addOther(ctx, t, s)
	polyglot{s.Outside.CA}.serve(t, s.World.Outside, otherAddr, ports)
}

// serve listens on all of the ports until the test ends. On those that speakFirst it does not wait for the client.
func (p polyglot) serve(t *testing.T, at *world.Host, addr netip.Addr, ports []uint16, speakFirst ...uint16) {
	t.Helper()
	for _, port := range append(ports, speakFirst...) {
		l, err := at.Listen(netip.AddrPortFrom(addr, port).String())
		if err != nil {
			t.Fatal(err)
		}
		first := false
		for _, other := range speakFirst {
			first = first || other == port
		}
		serveEach(t, l, func(c net.Conn) { p.talk(c, first) })
	}
}

// serveEach serves each connection that comes by itself, and closes it then, until the test ends.
func serveEach(t *testing.T, l net.Listener, serve func(net.Conn)) {
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				serve(c)
			}()
		}
	}()
}

func (p polyglot) talk(c net.Conn, first bool) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	peer, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	if first {
		_, _ = fmt.Fprintf(c, "%s%s\n", greeting, peer)
		_, _ = io.Copy(io.Discard, c)
		return
	}
	in := bufio.NewReader(c)
	start, err := in.Peek(1)
	if err != nil {
		return
	}
	if start[0] == 0x16 { // a TLS handshake
		secure := tls.Server(unread{c, in}, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return p.ca.Issue(cmp.Or(h.ServerName, "none.test"))
		}})
		in = bufio.NewReader(secure)
		c = secure
	}
	line, err := in.ReadString('\n')
	if err != nil {
		return
	}
	if !strings.Contains(line, " HTTP/1.") {
		_, _ = fmt.Fprintf(c, "%s%s\n", greeting, peer)
		return
	}
	for line != "\r\n" {
		if line, err = in.ReadString('\n'); err != nil {
			return
		}
	}
	body := greeting + peer + "\n"
	_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
}

// unread is a connection of which some bytes were read already.
type unread struct {
	net.Conn
	in io.Reader
}

func (u unread) Read(p []byte) (int, error) { return u.in.Read(p) }

// caller tries destinations as a program in the app's pod does.
type caller struct {
	host  *world.Host
	roots *tls.Config
	named func(host string) netip.Addr // where a host is, whatever the pod's DNS says

	known    netip.Addr    // what the pod's DNS has said already
	patience time.Duration // for one try, if it is not tryWithin
}

// at is a caller that knows where the host is that it tries, and has the patience of somebody who waits for an answer.
func (c caller) at(addr netip.Addr) caller {
	c.known, c.patience = addr, time.Minute
	return c
}

// appOf is the app's side of a scene.
func appOf(s *story.Scene) caller {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.Outside.CA.PEM())
	return caller{
		host: s.World.App, roots: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		named: s.Outside.Address,
	}
}

// get sends a GET on a connection of its own, and gives the answer's status and text.
func (c caller) get(ctx context.Context, within time.Duration, host string, port uint16, path string, header http.Header) (status int, text string, err error) {
	return c.send(ctx, within, http.MethodGet, host, port, path, header)
}

// send does so for any method.
func (c caller) send(ctx context.Context, within time.Duration, method, host string, port uint16, path string, header http.Header) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	addr, err := c.resolve(ctx, host)
	if err != nil {
		return 0, "", err
	}
	conn, err := c.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, port).String())
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(within))
	var lines strings.Builder
	_ = header.Write(&lines)
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s:%d\r\n%sConnection: close\r\n\r\n", method, path, host, port, &lines); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// try gives who the server said that it talks to, and an error when none answered. A name that the pod's DNS refuses
// does not end it: the application may know the address from elsewhere.
func (c caller) try(ctx context.Context, scheme, host string, port uint16, path string) (peer netip.Addr, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.patience, tryWithin))
	defer cancel()
	addr, err := c.resolve(ctx, host)
	if refused(err) {
		addr, err = c.named(host), nil
	}
	if err != nil {
		return peer, err
	}
	conn, err := c.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, port).String())
	if err != nil {
		return peer, err
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	if scheme == "https" || scheme == "tls" {
		settings := c.roots.Clone()
		settings.ServerName = host
		_, notName := netip.ParseAddr(host)
		settings.InsecureSkipVerify = notName == nil // then no name is sent, and none can be shown
		conn = tls.Client(conn, settings)
	}
	if scheme == "http" || scheme == "https" {
		return c.request(conn, host, port, path)
	}
	if _, err := fmt.Fprintf(conn, "ping\n"); err != nil {
		return peer, err
	}
	return heard(conn)
}

// tryNamed speaks TLS with a name to an address, whatever the name's own address is.
func (c caller) tryNamed(ctx context.Context, at netip.AddrPort, name string) (peer netip.Addr, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.patience, tryWithin))
	defer cancel()
	conn, err := c.host.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return peer, err
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	settings := c.roots.Clone()
	settings.ServerName = name
	return c.request(tls.Client(conn, settings), name, at.Port(), "/")
}

// tryWithin bounds one try: what is open answers at once, and what is dropped is as closed as what is refused.
const tryWithin = 3 * time.Second

func (c caller) request(conn net.Conn, host string, port uint16, path string) (peer netip.Addr, err error) {
	authority := host
	if port != 80 && port != 443 {
		authority = fmt.Sprintf("%s:%d", host, port)
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, authority); err != nil {
		return peer, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return peer, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return peer, errors.New(resp.Status)
	}
	return heard(resp.Body)
}

func heard(from io.Reader) (netip.Addr, error) {
	line, err := bufio.NewReader(from).ReadString('\n')
	text, ok := strings.CutPrefix(strings.TrimSpace(line), greeting)
	if !ok {
		return netip.Addr{}, errors.Join(fmt.Errorf("read %q", line), err)
	}
	return netip.ParseAddr(text)
}

// refused says whether the error is that there is no such name.
func refused(err error) bool {
	var none *net.DNSError
	return errors.As(err, &none) && none.IsNotFound
}

// resolve asks the pod's DNS. Every try asks again.
func (c caller) resolve(ctx context.Context, host string) (netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr, nil
	}
	if c.known.IsValid() {
		return c.known, nil
	}
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return c.host.DialContext(ctx, "udp", netip.AddrPortFrom(world.NameServerAddr, 53).String())
	}}
	if completes(host) {
		host = completed(host) // as the pod's resolv.conf has it searched for
	}
	found, err := resolver.LookupNetIP(ctx, "ip4", strings.TrimSuffix(host, ".")+".")
	if err != nil {
		return netip.Addr{}, err
	}
	return found[0].Unmap(), nil
}

// completes says whether a host is a short name of a Kubernetes service, or of a headless one's pod.
func completes(host string) bool {
	return !strings.Contains(host, ".test") && (strings.Count(host, ".") < 2 || strings.HasSuffix(host, ".svc")) && !strings.HasSuffix(host, ".istio-system")
}

// completed is the full name of a Kubernetes service, as the app in namespace default calls it.
func completed(host string) string {
	switch parts := strings.Split(host, "."); len(parts) {
	case 1:
		return host + ".default.svc.cluster.local"
	case 2:
		if parts[1] == "pods" {
			return host + ".default.svc.cluster.local"
		}
		return host + ".svc.cluster.local"
	default:
		return host + ".cluster.local"
	}
}
