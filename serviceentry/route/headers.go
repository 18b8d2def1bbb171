package route

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// Framing are the headers that say where a message ends and what becomes of its connection. Whoever writes them into
// other people's messages makes two out of one on a connection that many share.
var framing = []string{
	"connection", "content-length", "expect", "http2-settings", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// Reserved says why users' routes may not set or remove a header; "" where they may. Of responses, what Envoy adds may be
// removed.
func Reserved(name string, request bool) string {
	name = lower(name)
	switch {
	case strings.HasPrefix(name, "sallyport-"), strings.HasPrefix(name, "x-sallyport-"):
		return "is what the mesh's proxies tell each other"
	case request && strings.HasPrefix(name, "x-envoy-"):
		return "is an order to proxies"
	case slices.Contains(framing, name):
		return "says where messages end, and belongs to the connection"
	default:
		return ""
	}
}

func headersOf(h *networking.Headers) Headers {
	return Headers{Request: opsOf(h.GetRequest(), true), Response: opsOf(h.GetResponse(), false)}
}

func opsOf(o *networking.Headers_HeaderOperations, request bool) HeaderOps {
	out := HeaderOps{}
	out.Set = out.values(o.GetSet(), request)
	out.Add = out.values(o.GetAdd(), request)
	for _, name := range o.GetRemove() {
		if name = strings.ToLower(name); may(name, request) {
			out.Remove = append(out.Remove, name)
		}
	}
	return out
}

func (o *HeaderOps) values(in map[string]string, request bool) (out []Header) {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		switch key := strings.ToLower(name); {
		case request && (key == ":authority" || key == "host"):
			o.Authority = in[name]
		case may(key, request) && Formats(in[name]):
			out = append(out, Header{key, in[name]})
		}
	}
	return out
}

func may(name string, request bool) bool {
	return isToken(name) && name != "host" && Reserved(name, request) == ""
}

// isToken says whether a text can be the name of a header (RFC 9110 section 5.6.2), as far as users need it.
func isToken(name string) bool {
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c != '-' && c != '_' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return name != ""
}
