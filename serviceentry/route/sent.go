package route

import (
	"maps"
	"slices"
	"strings"
)

// Sent is a request as the proxy sends it on by a match of the route, to the destination of that number: with other headers, and another
// path. Of values only what is written is known, and not what proxies put in ("%REQ(x)%"). The Host is another subject (Renames).
func (h *HTTP) Sent(m *HTTPMatch, destination int, r Request) Request {
	if destination < len(h.Destinations) {
		r.Headers = h.Destinations[destination].Headers.Request.on(r.Headers)
	}
	r.Headers = h.Headers.Request.on(r.Headers)
	if h.Rewrite != nil {
		path, query, asked := strings.Cut(r.Path, "?")
		if r.Path = h.Rewrite.path(m, path); asked {
			r.Path += "?" + query
		}
	}
	return r
}

// on gives the headers after the changes: what is removed goes first.
func (o *HeaderOps) on(headers map[string][]string) map[string][]string {
	if len(o.Set)+len(o.Add)+len(o.Remove) == 0 {
		return headers
	}
	out := map[string][]string{}
	maps.Copy(out, headers)
	for _, name := range o.Remove {
		delete(out, name)
	}
	for _, x := range o.Set {
		out[x.Name] = []string{written(x.Value)}
	}
	for _, x := range o.Add {
		out[x.Name] = append(slices.Clone(out[x.Name]), written(x.Value))
	}
	return out
}

// written is a format string's value, as far as it is text.
func written(format string) string { return strings.ReplaceAll(format, "%%", "%") }

// path is what a path without its query becomes.
func (w *Rewrite) path(m *HTTPMatch, path string) string {
	switch {
	case w.URI != "":
		return w.URI + path[len(m.replaced(path)):]
	case w.Regex != nil:
		return w.Regex.found.ReplaceAllString(path, w.Regex.template())
	default:
		return path
	}
}

// replaced is the part of a path that a rewrite's URI takes the place of: the prefix that matched, or, where that is no question, all of it.
func (m *HTTPMatch) replaced(path string) string {
	switch {
	case m == nil || m.URI == nil || m.URI.Kind == Present:
		return path[:min(1, len(path))]
	case m.URI.Kind == Prefix:
		return path[:min(len(m.URI.Value), len(path))]
	default:
		return path
	}
}

// template is the replacement in Go's words, which says ${1} for \1.
func (x *RegexRewrite) template() string {
	var b strings.Builder
	for i := 0; i < len(x.Rewrite); i++ {
		c := x.Rewrite[i]
		switch {
		case c == '$':
			b.WriteString("$$")
		case c == '\\' && i+1 < len(x.Rewrite):
			i++
			if c = x.Rewrite[i]; c >= '0' && c <= '9' {
				b.WriteString("${" + string(c) + "}")
				continue
			}
			fallthrough
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
