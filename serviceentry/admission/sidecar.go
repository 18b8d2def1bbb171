package admission

import (
	"net/netip"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

func (r *report) sidecar(s *networking.Sidecar) {
	r.selector("spec.workloadSelector.labels", s.GetWorkloadSelector().GetLabels())
	r.ingress(s.Ingress)
	r.egress(s.Egress)
	if p := s.OutboundTrafficPolicy; p != nil && p.EgressProxy != nil {
		if p.Mode != networking.OutboundTrafficPolicy_ALLOW_ANY {
			r.reject("spec.outboundTrafficPolicy.egressProxy", nil, "needs mode ALLOW_ANY", "set spec.outboundTrafficPolicy.mode to ALLOW_ANY, or remove it")
		}
		r.destination("spec.outboundTrafficPolicy.egressProxy", p.EgressProxy)
		if p.EgressProxy.Port == nil {
			r.reject("spec.outboundTrafficPolicy.egressProxy.port", nil, "it is missing", "write it, as in {number: 443}")
		}
	}
}

func (r *report) ingress(listeners []*networking.IstioIngressListener) {
	seen := map[uint32]bool{}
	for i, l := range listeners {
		field := at("spec.ingress", i)
		if l.Port == nil {
			r.reject(at(field, "port"), nil, "it is missing", "write it, as in {number: 8080, name: http, protocol: HTTP}")
		} else {
			r.sidecarPort(at(field, "port"), l.Port)
			if seen[l.Port.Number] {
				r.reject(at(field, "port.number"), l.Port.Number, "the port is there twice", "write each port once")
			}
			seen[l.Port.Number] = true
		}
		r.bind(at(field, "bind"), l.Bind, false)
		if l.DefaultEndpoint != "" {
			r.defaultEndpoint(at(field, "defaultEndpoint"), l.DefaultEndpoint)
		}
		if t := l.Tls; t != nil {
			if t.Mode != networking.ServerTLSSettings_SIMPLE && t.Mode != networking.ServerTLSSettings_MUTUAL && t.Mode != networking.ServerTLSSettings_OPTIONAL_MUTUAL {
				r.reject(at(field, "tls.mode"), t.Mode, "is not supported for a sidecar's listener", "use SIMPLE or MUTUAL")
			}
			if t.HttpsRedirect {
				r.reject(at(field, "tls.httpsRedirect"), true, "is not supported for a sidecar's listener", "remove it")
			}
			r.serverSettings(at(field, "tls"), t)
		}
	}
}

func (r *report) egress(listeners []*networking.IstioEgressListener) {
	catchAll := -1
	seen := map[[2]string]bool{}
	for i, l := range listeners {
		field := at("spec.egress", i)
		switch {
		case l.Port != nil:
			r.sidecarPort(at(field, "port"), l.Port)
			id := [2]string{l.Bind, text(l.Port.Number)}
			if l.Port.Number != 0 && seen[id] {
				r.reject(at(field, "port.number"), l.Port.Number, "another listener has the same port and bind", "join their hosts in one listener")
			}
			seen[id] = true
		case l.Bind != "" && !strings.HasPrefix(l.Bind, unixPrefix):
			r.reject(at(field, "bind"), l.Bind, "needs a port", "write "+at(field, "port")+", or remove bind")
		case catchAll >= 0:
			r.reject(at(field), nil, "is a second listener without a port", "join its hosts with those of "+at("spec.egress", catchAll))
		case i != len(listeners)-1:
			r.reject(at(field), nil, "a listener without a port takes what the others leave, so it must be the last", "move it to the end")
			catchAll = i
		default:
			catchAll = i
		}
		r.bind(at(field, "bind"), l.Bind, true)
		if len(l.Hosts) == 0 {
			r.reject(at(field, "hosts"), nil, "there is no host", `write at least one, as in "./*"; "~/*" means none`)
		}
		for j, h := range l.Hosts {
			r.namespacedHost(at(field, "hosts", j), h, false)
		}
	}
}

func (r *report) sidecarPort(field string, p *networking.SidecarPort) {
	r.port(at(field, "number"), p.Number)
	r.protocol(at(field, "protocol"), p.Protocol)
	if p.TargetPort != 0 {
		r.warn(at(field, "targetPort"), p.TargetPort, "has no effect", "remove it; defaultEndpoint says where to forward to")
	}
}

func (r *report) bind(field, value string, socket bool) {
	if value == "" || (socket && strings.HasPrefix(value, unixPrefix)) {
		return
	}
	if _, err := netip.ParseAddr(value); err != nil {
		r.reject(field, value, "is no address", "write an IP address")
	}
}
