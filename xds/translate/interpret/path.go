package interpret

import (
	"net/url"
	"slices"
	"strings"
)

// normalize writes a request's host and path as the connection manager's routes, and everybody behind, read them; false where the path cannot
// be. https://www.envoyproxy.io/docs/envoy/latest/api-v3/extensions/filters/network/http_connection_manager/v3/http_connection_manager.proto
func (r *stream) normalize() bool {
	if r.hcm.StripTrailingHostDot {
		host, port := hostOnly(r.request.Authority), ""
		if rest, found := strings.CutPrefix(r.request.Authority, host); found {
			port = rest
		}
		r.request.Authority = strings.TrimSuffix(host, ".") + port
	}
	if !r.hcm.NormalizePath.GetValue() || r.request.Path == "" {
		return true
	}
	path, query, found := strings.Cut(r.request.Path, "?")
	path, ok := normalPath(path)
	if r.request.Path = path; found {
		r.request.Path += "?" + query
	}
	return ok
}

// normalPath is a path without "." and ".." (RFC 3986 section 5.2.4), with slashes for backslashes, and with what needs no escape unescaped
// (section 2.3).
func normalPath(path string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '\\':
			b.WriteByte('/')
		case c == '%' && i+2 < len(path):
			text, err := url.PathUnescape(path[i : i+3])
			if err != nil || !unreserved(text[0]) {
				b.WriteString(path[i : i+3])
			} else {
				b.WriteByte(text[0])
			}
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	parts := strings.Split(b.String(), "/")
	out := make([]string, 0, len(parts))
	for i, p := range parts {
		last := i == len(parts)-1
		switch {
		case p == "." && last:
			out = append(out, "")
		case p == ".":
		case p == "..":
			if len(out) > 1 {
				out = out[:len(out)-1]
			}
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, p)
		}
	}
	text := strings.Join(out, "/")
	return text, strings.HasPrefix(text, "/") && !slices.Contains([]byte(text), 0)
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
