package admission

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/host"
)

// isAddress says whether it is an IP address that others can connect to.
func isAddress(s string) bool {
	_, is := host.Reachable(s)
	return is
}

func (r *report) connectionPool(field string, p *networking.ConnectionPoolSettings) {
	if p == nil {
		return
	}
	if p.Http == nil && p.Tcp == nil {
		r.reject(field, nil, "says nothing", "write its http or tcp part, or remove it")
	}
	r.httpPool(at(field, "http"), p.Http)
	r.tcpPool(at(field, "tcp"), p.Tcp)
}

func (r *report) httpPool(field string, h *networking.ConnectionPoolSettings_HTTPSettings) {
	if h == nil {
		return
	}
	for _, f := range []struct {
		name  string
		value int32
	}{
		{"http1MaxPendingRequests", h.Http1MaxPendingRequests}, {"http2MaxRequests", h.Http2MaxRequests},
		{"maxRequestsPerConnection", h.MaxRequestsPerConnection}, {"maxRetries", h.MaxRetries},
		{"maxConcurrentStreams", h.MaxConcurrentStreams},
	} {
		r.notNegative(at(field, f.name), f.value)
	}
	r.positive(at(field, "idleTimeout"), h.IdleTimeout)
	if h.H2UpgradePolicy == networking.ConnectionPoolSettings_HTTPSettings_UPGRADE && h.UseClientProtocol {
		r.reject(at(field, "useClientProtocol"), true, "cannot be set together with h2UpgradePolicy UPGRADE", "remove one of the two")
	}
	if k := h.Http2KeepAlive; k != nil {
		if (k.Interval == nil) != (k.Timeout == nil) {
			r.reject(at(field, "http2KeepAlive"), nil, "has only one of interval and timeout", "write both: how often to ask, and how long to wait for the answer")
		}
		r.positive(at(field, "http2KeepAlive.interval"), k.Interval)
		r.positive(at(field, "http2KeepAlive.timeout"), k.Timeout)
	}
}

func (r *report) tcpPool(field string, t *networking.ConnectionPoolSettings_TCPSettings) {
	if t == nil {
		return
	}
	r.notNegative(at(field, "maxConnections"), t.MaxConnections)
	r.positive(at(field, "connectTimeout"), t.ConnectTimeout)
	r.positive(at(field, "maxConnectionDuration"), t.MaxConnectionDuration)
	if t.IdleTimeout.AsDuration() != 0 { // 0 turns it off
		r.positive(at(field, "idleTimeout"), t.IdleTimeout)
	}
	r.positive(at(field, "tcpKeepalive.time"), t.GetTcpKeepalive().GetTime())
	r.positive(at(field, "tcpKeepalive.interval"), t.GetTcpKeepalive().GetInterval())
}

func (r *report) notNegative(field string, v int32) {
	if v < 0 {
		r.reject(field, v, "is negative", "write a number from 0 on")
	}
}
