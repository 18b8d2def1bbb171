package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// keptFor is how often a client asks on a connection of bytes that it keeps: who leaves has to have some.
const keptFor = 50

// crowdCaller is a client that asks again and again, and tries nothing twice.
type crowdCaller struct {
	way, says        string
	http, kept, slow bool
	from             *world.Host
	at               netip.AddrPort

	asked atomic.Int64

	mu                              sync.Mutex
	answered, byComers, connections int
	failed                          []string
}

func crowdGet(host, path string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
}

func (c *crowdCaller) String() string {
	kind := "bytes by " + c.way
	switch {
	case c.slow:
		return "slow answers by " + c.way
	case c.http:
		kind = "requests by " + c.way
	}
	if c.kept {
		return kind + ", on a kept connection"
	}
	return kind + ", on new connections"
}

// ask goes on until the context ends; what is under way then comes to its end.
func (c *crowdCaller) ask(ctx context.Context) {
	pace := time.NewTicker(map[bool]time.Duration{true: 10 * time.Millisecond, false: 25 * time.Millisecond}[c.kept])
	defer pace.Stop()
	var open *crowdConn
	defer func() { open.close() }()
	whole := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		c.asked.Add(1)
		var err error
		if open == nil {
			open, err = c.dial(whole)
		}
		if err == nil {
			var who string
			var last bool
			if who, last, err = open.exchange(c); err == nil {
				c.note(who)
				if last || !c.kept || !c.http && open.asked >= keptFor {
					open.close()
					open = nil
				}
			}
		}
		if err != nil && ctx.Err() == nil {
			open.close()
			open = nil
			c.mu.Lock()
			c.failed = append(c.failed, fmt.Sprintf("%s: %v", time.Now().UTC().Format("15:04:05.000"), err))
			c.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-pace.C:
		}
	}
}

func (c *crowdCaller) note(who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered++
	if strings.HasPrefix(who, "comer-") {
		c.byComers++
	}
}

// once asks on a connection of its own.
func (c *crowdCaller) once(ctx context.Context) error {
	if c.slow { // nothing beats yet
		return nil
	}
	open, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer open.close()
	_, _, err = open.exchange(c)
	return err
}

// crowdConn is a client's connection.
type crowdConn struct {
	net.Conn
	in    *bufio.Reader
	asked int
}

func (c *crowdCaller) dial(ctx context.Context) (*crowdConn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	conn, err := c.from.DialContext(ctx, "tcp", c.at.String())
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.connections++
	c.mu.Unlock()
	return &crowdConn{conn, bufio.NewReader(conn), 0}, nil
}

func (o *crowdConn) close() {
	if o != nil {
		_ = o.Close()
	}
}

// exchange asks once, and says who answered, and whether the connection is asked to be given up.
func (o *crowdConn) exchange(c *crowdCaller) (who string, last bool, err error) {
	o.asked++
	within := answerWithin
	if c.slow {
		within = 2 * flapPatience
	}
	_ = o.SetDeadline(time.Now().Add(within))
	if _, err := io.WriteString(o, c.says); err != nil {
		return "", false, fmt.Errorf("asked for the %d. time: %w", o.asked, err)
	}
	var text string
	if c.http {
		text, last, err = o.page()
	} else {
		text, err = o.in.ReadString('\n')
	}
	said := strings.Fields(text)
	switch {
	case err != nil:
		return "", false, fmt.Errorf("the %d. answer: %q: %w", o.asked, text, err)
	case len(said) != 3 || said[0] != "crowd":
		return "", false, fmt.Errorf("the %d. answer: %q", o.asked, text)
	}
	return said[1], last || said[2] == "bye", nil
}

func (o *crowdConn) page() (text string, last bool, err error) {
	resp, err := http.ReadResponse(o.in, nil)
	if err != nil {
		return "", false, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", resp.Status)
	}
	return string(body), resp.Close, err
}
