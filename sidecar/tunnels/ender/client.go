package ender

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// Client asks a Server.
type Client struct{ client http.Client }

// NewClient asks by the socket at a path, which need not be there yet.
func NewClient(path string) *Client {
	var dialer net.Dialer
	return &Client{http.Client{Timeout: patience, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) },
	}}}
}

// End resets a connection. Of one that has ended before the error is sockdiag.ErrGone.
func (c *Client) End(ctx context.Context, of sockdiag.Connection, _ ...sockdiag.Connection) error {
	body, err := json.Marshal(of)
	if err != nil {
		return err
	}
	return c.ask(ctx, http.MethodPost, body)
}

// Can says why no connection can be ended: there is no Server, or it has no right to.
func (c *Client) Can(ctx context.Context) error { return c.ask(ctx, http.MethodGet, nil) }

func (c *Client) ask(ctx context.Context, method string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://ender/", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("who ends connections does not answer: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusNoContent:
		return nil
	case http.StatusNotFound:
		return sockdiag.ErrGone
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, mostRequest)) // without it the status is left
	return fmt.Errorf("who ends connections refuses (HTTP %d): %s", resp.StatusCode, strings.TrimSpace(string(said)))
}
