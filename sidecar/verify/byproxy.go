package verify

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// pageByProxy asks the forward proxy for a page of another host.
func (e *Env) pageByProxy(ctx context.Context, r Result, page string) Result {
	c, err := e.connect(ctx, e.Proxy.Host)
	if err != nil {
		return r.conclude(Unclear, "the proxy %s does not answer: %v", e.Proxy.Host, err)
	}
	defer func() { _ = c.Close() }()
	c.taken = ByProxy
	r.Taken = ByProxy
	to, err := url.Parse(page)
	if err != nil {
		return r.conclude(Unclear, "%v", err)
	}
	if _, err := fmt.Fprintf(c, "GET %s://%s/ HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nConnection: close\r\n\r\n", to.Scheme, to.Host, to.Host, userAgent); err != nil {
		return r.judgeSilence(c, err, e)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return r.judgeSilence(c, err, e)
	}
	return r.judgeAnswer(answerOf(resp))
}
