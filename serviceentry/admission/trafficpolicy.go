package admission

import (
	"net/netip"

	networking "istio.io/api/networking/v1alpha3"
)

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

func (r *report) connectionPool(field string, p *networking.ConnectionPoolSettings) {
	if p == nil {
		return
	}
	if p.Http == nil && p.Tcp == nil {
		r.reject(field, nil, "says nothing", "write its http or tcp part, or remove it")
	}
	if h := p.Http; h != nil {
		for _, f := range []struct {
			name  string
			value int32
		}{
			{"http1MaxPendingRequests", h.Http1MaxPendingRequests}, {"http2MaxRequests", h.Http2MaxRequests},
			{"maxRequestsPerConnection", h.MaxRequestsPerConnection}, {"maxRetries", h.MaxRetries},
			{"maxConcurrentStreams", h.MaxConcurrentStreams},
		} {
			r.notNegative(at(field, "http", f.name), f.value)
		}
		r.positive(at(field, "http.idleTimeout"), h.IdleTimeout)
		if h.H2UpgradePolicy == networking.ConnectionPoolSettings_HTTPSettings_UPGRADE && h.UseClientProtocol {
			r.reject(at(field, "http.useClientProtocol"), true, "cannot be set together with h2UpgradePolicy UPGRADE", "remove one of the two")
		}
	}
	if t := p.Tcp; t != nil {
		r.notNegative(at(field, "tcp.maxConnections"), t.MaxConnections)
		r.positive(at(field, "tcp.connectTimeout"), t.ConnectTimeout)
		r.positive(at(field, "tcp.maxConnectionDuration"), t.MaxConnectionDuration)
		if t.IdleTimeout.AsDuration() < 0 { // 0 turns it off
			r.reject(at(field, "tcp.idleTimeout"), t.IdleTimeout.AsDuration(), "is negative", "write a duration, or 0s for none")
		}
		r.positive(at(field, "tcp.tcpKeepalive.time"), t.GetTcpKeepalive().GetTime())
		r.positive(at(field, "tcp.tcpKeepalive.interval"), t.GetTcpKeepalive().GetInterval())
	}
}

func (r *report) notNegative(field string, v int32) {
	if v < 0 {
		r.reject(field, v, "is negative", "write a number from 0 on")
	}
}

func (r *report) loadBalancer(field string, l *networking.LoadBalancerSettings) {
	if l == nil {
		return
	}
	if l.WarmupDurationSecs != nil && l.Warmup != nil {
		r.reject(at(field, "warmup"), nil, "cannot be set together with warmupDurationSecs", "keep warmup")
	}
	if hash := l.GetConsistentHash(); hash != nil {
		if hash.HashKey == nil {
			r.reject(at(field, "consistentHash"), nil, "says not what to hash", "write one of httpHeaderName, httpCookie, useSourceIp, httpQueryParameterName")
		}
		if c := hash.GetHttpCookie(); c != nil && c.Name == "" {
			r.reject(at(field, "consistentHash.httpCookie.name"), nil, "it is missing", "write the cookie's name")
		}
	}
	if s := l.LocalityLbSetting; s != nil {
		ways := 0
		for _, set := range []bool{len(s.Distribute) > 0, len(s.Failover) > 0} {
			if set {
				ways++
			}
		}
		if ways > 1 {
			r.reject(at(field, "localityLbSetting"), nil, "distribute and failover cannot be set together", "keep one of the two")
		}
		for i, d := range s.Distribute {
			var sum uint32
			for _, weight := range d.To {
				sum += weight
			}
			if sum != 100 {
				r.reject(at(field, "localityLbSetting.distribute", i, "to"), sum, "the weights' sum is not 100", "make them add up to 100")
			}
		}
	}
}
