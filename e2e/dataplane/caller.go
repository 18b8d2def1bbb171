package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// exchangeLimit is how long a request may take, its connection included, before it has failed.
const exchangeLimit = 30 * time.Second

// caller is one of the clients of a closed loop: one request after the other. It speaks HTTP/1.1 itself, for a
// generator that costs more than what it measures is of no use.
type caller struct {
	order
	target string
	tls    *tls.Config
	*budget

	conn   net.Conn
	reader *bufio.Reader

	latencies []time.Duration
	failures  int
	first     error
}

func (c *caller) loop(ctx context.Context) {
	request := []byte("GET / HTTP/1.1\r\nHost: " + c.authority() + "\r\nUser-Agent: load\r\n\r\n")
	for ctx.Err() == nil && c.next() {
		began := time.Now()
		err := c.exchange(ctx, request)
		took := time.Since(began)
		if err != nil || !c.Keep {
			c.close()
		}
		switch {
		case err != nil:
			c.failures++
			if c.first == nil {
				c.first = err
			}
		case began.After(c.counts):
			c.latencies = append(c.latencies, took)
		}
	}
	c.close()
}

// authority is whom it asks for: a pod names the port of another one's Service, and clients outside connect to a gateway's pod as a load balancer does.
func (c *caller) authority() string {
	if c.Way == mesh {
		return net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
	}
	return c.Host
}

func (c *caller) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

func (c *caller) exchange(ctx context.Context, request []byte) error {
	if c.conn == nil {
		if err := c.connect(ctx); err != nil {
			return err
		}
	}
	if err := c.conn.SetDeadline(time.Now().Add(exchangeLimit)); err != nil {
		return err
	}
	if _, err := c.conn.Write(request); err != nil {
		return fmt.Errorf("writing a request: %w", err)
	}
	return c.answer()
}

func (c *caller) connect(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: exchangeLimit}).DialContext(ctx, "tcp", c.target)
	if err != nil {
		return err
	}
	c.conn = conn
	if c.TLS {
		secure := tls.Client(conn, c.tls)
		if err := conn.SetDeadline(time.Now().Add(exchangeLimit)); err != nil {
			return err
		}
		if err := secure.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("TLS handshake: %w", err)
		}
		c.conn = secure
	}
	if c.reader == nil {
		c.reader = bufio.NewReaderSize(c.conn, 16<<10)
	}
	c.reader.Reset(c.conn)
	return nil
}

// answer reads a response that must be 200 and have the expected body.
func (c *caller) answer() error {
	length := -1
	for first := true; ; first = false {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("reading an answer: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
			return fmt.Errorf("answer %q", line)
		}
		if len(line) == 0 {
			break
		}
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if length != len(page) {
		return fmt.Errorf("a body of %d bytes, want %d", length, len(page))
	}
	body, err := c.reader.Peek(length)
	if err != nil {
		return fmt.Errorf("reading a body: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	if !bytes.Equal(body, page) {
		return errors.New("another body")
	}
	_, err = c.reader.Discard(length)
	return err
}
