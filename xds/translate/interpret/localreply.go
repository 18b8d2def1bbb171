package interpret

import hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

// mapReply changes an answer of the proxy's own as the connection manager's first mapper says whose filter keeps it.
func (r *stream) mapReply(a *Response) {
	r.entry = &Entry{Details: a.Details, Flags: r.flags, Status: a.Status}
	r.body = string(a.Body)
	for _, m := range r.hcm.GetLocalReplyConfig().GetMappers() {
		if r.logged(m.Filter) {
			r.mapped(a, m)
			return
		}
	}
}

func (r *stream) mapped(a *Response, m *hcmv3.ResponseMapper) {
	if m.StatusCode != nil {
		a.Status = m.StatusCode.Value
	}
	if f := m.BodyFormatOverride; f != nil {
		a.Body = []byte(r.formatted(f))
		if f.ContentType != "" {
			a.Headers["content-type"] = f.ContentType
		} else if f.GetJsonFormat() != nil {
			a.Headers["content-type"] = "application/json"
		}
	}
	for _, h := range m.HeadersToAdd {
		a.Headers[h.Header.Key] = r.fill(h.Header.Value, "")
	}
}
