package e2e

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"testing"

	"github.com/sallyport/sallyport/e2e/world"
)

// servePages answers requests at an address of a host until the test ends.
func servePages(t *testing.T, at *world.Host, addr netip.AddrPort, pages http.HandlerFunc) {
	t.Helper()
	l, err := at.Listen(addr.String())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: attackTimeout, Handler: pages}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }()
}

// pageOf asks an address for a host's page.
func pageOf(ctx context.Context, client *http.Client, at netip.AddrPort, host string) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.String()+"/", nil)
	if err != nil {
		return 0, "", err
	}
	r.Host = host
	resp, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}
