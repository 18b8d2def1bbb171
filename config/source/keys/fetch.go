package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/inside"
)

const (
	largest     = 1 << 20 // bytes of a set of keys
	redirects   = 3
	timeout     = 5 * time.Second
	wellKnown   = "/.well-known/openid-configuration" // OpenID Connect Discovery 1.0 section 4
	onlyByHTTPs = "keys are fetched by http and https"
)

// Source is where a set of keys is.
type Source struct {
	Key      config.Key // of the object that the set is
	URI      string     // of the keys, or, with Discover, of the issuer
	Discover bool       // the issuer says where its keys are
	Timeout  time.Duration
}

// fetch gets a set, from no address of the inside but those that are allowed.
func fetch(ctx context.Context, s Source, allowed inside.Allowed) (string, error) {
	wait := timeout
	if s.Timeout > 0 && s.Timeout < time.Minute {
		wait = s.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	client := guarded(allowed)
	defer client.CloseIdleConnections()
	if !s.Discover {
		return get(ctx, client, s.URI)
	}
	about, err := get(ctx, client, strings.TrimSuffix(s.URI, "/")+wellKnown)
	if err != nil {
		return "", err
	}
	var said struct {
		URI string `json:"jwks_uri"`
	}
	if err := json.Unmarshal([]byte(about), &said); err != nil || said.URI == "" {
		return "", undescribed.because(fmt.Errorf("%s%s names no jwks_uri", s.URI, wellKnown))
	}
	return get(ctx, client, said.URI)
}

func get(ctx context.Context, client *http.Client, uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", nowhere.because(fmt.Errorf("%q: "+onlyByHTTPs, uri))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", answers(resp.StatusCode).because(fmt.Errorf("%s answers %s", uri, resp.Status))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, largest+1))
	switch {
	case err != nil:
		return "", err
	case len(body) > largest:
		return "", tooLarge.because(fmt.Errorf("%s answers more than %d bytes", uri, largest))
	}
	return string(body), nil
}

// guarded is a client that connects to addresses that a host may have, whatever name, redirect or proxy leads there.
func guarded(allowed inside.Allowed) *http.Client {
	dial := func(ctx context.Context, network, to string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(to)
		if err != nil {
			return nil, err
		}
		d := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err == nil && allowed.Refuses(host, at.Addr().Unmap()) {
				err = leadsInside.because(fmt.Errorf("%s has the address %s, which is inside; sallyport.dns.allowPrivate can allow it", host, at.Addr()))
			}
			return err
		}}
		return d.DialContext(ctx, network, to)
	}
	return &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > redirects {
				return redirected.because(errors.New("it redirects too often"))
			}
			return nil
		},
	}
}
