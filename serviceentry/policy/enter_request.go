package policy

import (
	"cmp"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// What an ingress gateway makes of a request before anything is asked about it: xds/envoy's IngressHCM says the same to Envoy.

// read is the request as the gateway's policies and routes see it; false where its path is none.
func (a entering) read() (r route.Request, ok bool) {
	r = route.Request{Method: cmp.Or(a.Method, http.MethodGet), Scheme: "http", Authority: a.authority(), SNI: a.sni(), Claims: a.Claims, Unknown: a.Unknown}
	if a.Scheme.IsTLS() {
		r.Scheme = "https"
	}
	r.Headers = a.headers(r.Scheme)
	path, query, asked := strings.Cut(cmp.Or(a.Path, "/"), "?")
	if r.Path, ok = normalPath(path); asked {
		r.Path += "?" + query
	}
	return r, ok
}

// authority is the host that the request is for, as the client sends it, without a dot at its end: without the port that the scheme has anyway.
func (a entering) authority() string {
	if said := a.Headers["host"]; len(said) > 0 {
		host, port, err := net.SplitHostPort(strings.ToLower(said[0]))
		if err != nil {
			return strings.TrimSuffix(strings.ToLower(said[0]), ".")
		}
		return net.JoinHostPort(strings.TrimSuffix(host, "."), port)
	}
	if a.Port == map[bool]uint32{false: 80, true: 443}[a.Scheme.IsTLS()] {
		if strings.Contains(a.Host, ":") {
			return "[" + a.Host + "]"
		}
		return a.Host
	}
	return net.JoinHostPort(a.Host, strconv.FormatUint(uint64(a.Port), 10))
}

// named is that host without a port.
func (a entering) named() string {
	host, _, err := net.SplitHostPort(a.authority())
	if err != nil {
		return strings.Trim(a.authority(), "[]")
	}
	return host
}

// headers are the client's, without those that nobody outside may write, and with what the gateway writes about the client.
func (a entering) headers(scheme string) map[string][]string {
	out := maps.Clone(a.Destination.Headers)
	if out == nil {
		out = map[string][]string{}
	}
	delete(out, "host")
	maps.DeleteFunc(out, func(name string, _ []string) bool {
		return strings.HasPrefix(name, "x-envoy-") || strings.HasPrefix(name, "x-sallyport-")
	})
	if c := a.snap.IngressSettings(a.Gateway.Ingress).ClientCertificates; c == mesh.WriteAnew || c == mesh.Sanitize {
		delete(out, "x-forwarded-client-cert")
	}
	if a.From.IsValid() {
		out["x-forwarded-for"] = []string{strings.Join(append(slices.Clone(out["x-forwarded-for"]), a.From.String()), ",")}
	}
	if len(out["x-forwarded-proto"]) == 0 || a.snap.IngressSettings(a.Gateway.Ingress).TrustedProxies == 0 {
		out["x-forwarded-proto"] = []string{scheme}
	}
	return out
}

// remote is the address of whoever is behind the connection: as many proxies in front of the gateway as the mesh trusts tell it.
func (a entering) remote() netip.Addr {
	hops := int(a.snap.IngressSettings(a.Gateway.Ingress).TrustedProxies)
	if hops == 0 {
		return a.From
	}
	all := strings.Split(strings.Join(a.Headers["x-forwarded-for"], ","), ",")
	if len(all) < hops {
		return a.From
	}
	addr, err := netip.ParseAddr(strings.TrimSpace(all[len(all)-hops]))
	if err != nil {
		return a.From
	}
	return addr
}

// normalPath is a path without "." and ".." (RFC 3986 section 5.2.4), with slashes for backslashes, and with what needs no escape unescaped
// (section 2.3). What xds/translate/interpret does is written apart, since the one is held against the other.
func normalPath(path string) (string, bool) {
	if !strings.HasPrefix(path, "/") {
		return path, false
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '\\' {
			c = '/'
		}
		if c == '%' && i+2 < len(path) {
			if text, err := url.PathUnescape(path[i : i+3]); err == nil && unreserved(text[0]) {
				c, i = text[0], i+2
			}
		}
		b.WriteByte(c)
	}
	var out []string
	parts := strings.Split(b.String(), "/")
	for i, part := range parts {
		switch {
		case part == "..":
			out = out[:max(1, len(out)-1)]
		case part != ".":
			out = append(out, part)
			continue
		}
		if i == len(parts)-1 {
			out = append(out, "")
		}
	}
	text := strings.Join(out, "/")
	return text, strings.IndexByte(text, 0) < 0
}

// unreserved says whether paths have a character without an escape.
func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// statusIn is the status that the reason of a token that is not good begins with.
func statusIn(why string) uint32 {
	code, _, _ := strings.Cut(why, ":")
	n, err := strconv.ParseUint(code, 10, 16)
	if err != nil {
		return http.StatusUnauthorized
	}
	return uint32(n)
}
