package verify

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
)

const userAgent = "sallyport-verify"

// connectedOnly is what was seen of a connection that the target itself took, and said nothing on.
const connectedOnly = "connected, and nothing in the pod took it"

// answer is an HTTP answer, as far as it tells who wrote it.
type answer struct {
	status int
	body   string // its beginning
}

// answerOf reads an answer's beginning.
func answerOf(resp *http.Response) answer {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 2048))
	_ = resp.Body.Close()
	return answer{resp.StatusCode, strings.TrimSpace(string(body))}
}

func (a answer) String() string {
	text := strings.Join(strings.Fields(a.body), " ")
	if len(text) > 120 {
		text = strings.ToValidUTF8(text[:120], "") + "…"
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.status, text))
}

// refused says whether a proxy of the mesh wrote it, of what may not leave.
func (a answer) refused() bool { return strings.HasPrefix(a.body, "sallyport:") }

// unreached says whether Envoy wrote it, of a server that it let the request go to and did not reach.
func (a answer) unreached() bool {
	return a.status >= 502 && a.status <= 504 && (strings.HasPrefix(a.body, "upstream ") || strings.HasPrefix(a.body, "no healthy upstream") || a.body == "")
}

// judgeAnswer judges an HTTP answer.
func (r Result) judgeAnswer(a answer) Result {
	switch {
	case a.refused(), a.status == http.StatusProxyAuthRequired:
		return r.conclude(Closed, "refused by the proxy: %s", a)
	case r.Taken == "":
		return r.conclude(Open, "answered, and nothing in the pod took it: %s", a)
	case a.unreached():
		return r.conclude(Unclear, "the proxy let it pass, and reached nobody: %s", a)
	}
	return r.conclude(Open, "answered: %s", a)
}

// judgeRefusal judges a proxy's answer in place of a tunnel.
func (r Result) judgeRefusal(a answer) Result {
	if a.unreached() {
		return r.conclude(Unclear, "the proxy would let it pass, and reached nobody: %s", a)
	}
	return r.conclude(Closed, "refused by the proxy: %s", a)
}

// judgeSilence judges a connection that there was, from which nothing came.
func (r Result) judgeSilence(c *conn, err error, e *Env) Result {
	r.Taken = c.taken
	switch {
	case c.taken == "":
		return r.conclude(Open, connectedOnly)
	case timedOut(err):
		return r.conclude(Unclear, "taken by the %s, and no answer within %s", c.taken, e.Wait)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return r.conclude(Closed, "taken by the %s, and ended without a byte", c.taken)
	}
	return r.conclude(Unclear, "taken by the %s: %v", c.taken, err)
}

// http asks addr for a page of host, and judges the answer.
func (e *Env) http(ctx context.Context, r Result, addr, host string) Result {
	c, err := e.dial(ctx, addr)
	if err != nil {
		return r.judgeDial(err, e.Wait)
	}
	defer func() { _ = c.Close() }()
	return r.page(e, c, host)
}

// page asks for a page on a connection.
func (r Result) page(e *Env, c *conn, host string) Result {
	r.Taken = c.taken
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nAccept: */*\r\nConnection: close\r\n\r\n", host, userAgent); err != nil {
		return r.judgeSilence(c, err, e)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	switch {
	case err == nil:
		return r.judgeAnswer(answerOf(resp))
	case c.heard.Load() > 0:
		return r.conclude(Open, "answered, and not by HTTP")
	}
	return r.judgeSilence(c, err, e)
}

// tls shakes hands with addr under a server name ("" for none), and judges what comes back.
func (e *Env) tls(ctx context.Context, r Result, addr, name string) Result {
	c, err := e.dial(ctx, addr)
	if err != nil {
		return r.judgeDial(err, e.Wait)
	}
	defer func() { _ = c.Close() }()
	r.Taken = c.taken
	// Who answers is no matter, only that somebody does.
	hello := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // G402: nothing is said to the other end
	err = hello.HandshakeContext(ctx)
	switch {
	case err == nil:
		return r.conclude(Open, "%sa server shook hands%s", noteUncaught(c.taken), describeServer(hello.ConnectionState()))
	case c.heard.Load() > 0:
		return r.conclude(Open, "%sa server answered: %s", noteUncaught(c.taken), cause(err))
	}
	return r.judgeSilence(c, err, e)
}

func noteUncaught(t Taken) string {
	if t == "" {
		return "nothing in the pod took it, and "
	}
	return ""
}

// describeServer says whom the server said to be.
func describeServer(s tls.ConnectionState) string {
	if len(s.PeerCertificates) == 0 {
		return ""
	}
	leaf := s.PeerCertificates[0]
	name := leaf.Subject.CommonName
	if len(leaf.DNSNames) > 0 {
		name = leaf.DNSNames[0]
	}
	return " as " + strconv.Quote(name)
}
