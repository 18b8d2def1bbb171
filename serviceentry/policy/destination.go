package policy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/resolve"
)

// Destination is what a workload tries to reach: see resolve.
type Destination = resolve.Destination

// Scheme is what it speaks.
type Scheme = resolve.Scheme

// The schemes.
const (
	HTTP  = resolve.HTTP
	HTTPS = resolve.HTTPS
	TLS   = resolve.TLS
	TCP   = resolve.TCP
)

// ParseDestination reads a URL: http://host[:port]/path, https://host[:port], tls://sni:port, tcp://host:port.
func ParseDestination(s string) (Destination, error) {
	u, err := url.Parse(s)
	if err != nil {
		return Destination{}, fmt.Errorf("URL %q: %w", s, errors.Unwrap(err))
	}
	d := Destination{Scheme: Scheme(u.Scheme), Host: strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), Path: pathOf(u)}
	switch d.Scheme {
	case HTTP:
		d.Port = 80
	case HTTPS:
		d.Port = 443
	case TLS, TCP:
	default:
		return Destination{}, fmt.Errorf("URL %q: the scheme %q is none of http, https, tls, tcp; write https://external.com or tcp://db.external.com:5432", s, u.Scheme)
	}
	if d.Host == "" {
		return Destination{}, fmt.Errorf("URL %q: it names no host; write %s://external.com:%d", s, u.Scheme, max(d.Port, 443))
	}
	if d.Host, err = readHost(d.Host); err != nil {
		return Destination{}, fmt.Errorf("URL %q: %w", s, err)
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return Destination{}, fmt.Errorf("URL %q: port %q is not within 1…65535", s, p)
		}
		d.Port = uint32(n)
	}
	if d.Port == 0 {
		return Destination{}, fmt.Errorf("URL %q: %s has no port of its own; write %s", s, u.Scheme, u.Scheme+"://"+net.JoinHostPort(u.Hostname(), "5432"))
	}
	return d, nil
}

// readHost holds a host to what can be asked for: one name, or an address. One dot at its end is the root's, and is not there any more.
func readHost(s string) (string, error) {
	if strings.HasSuffix(s, ".") {
		return "", fmt.Errorf("host %q: it ends in two dots; remove them", s+".")
	}
	if ip, err := netip.ParseAddr(s); err == nil {
		if ip.Zone() != "" {
			return "", fmt.Errorf("address %q: nothing outside has a zone; write it without %q", s, "%"+ip.Zone())
		}
		return ip.Unmap().String(), nil
	}
	n, err := host.ParseExact(s)
	return string(n), err
}

// pathOf is what a request of the URL asks for, as it is sent; "" where the URL says nothing.
func pathOf(u *url.URL) string {
	if u.Path == "" && u.RawQuery == "" {
		return ""
	}
	return u.RequestURI()
}
