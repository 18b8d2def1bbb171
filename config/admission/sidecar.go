package admission

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
)

func (r *report) sidecar(s *networking.Sidecar) {
	if len(s.Egress)+len(s.Ingress) == 0 && s.OutboundTrafficPolicy == nil && s.InboundConnectionPool == nil {
		r.reject("spec", nil, "says nothing", "write egress, as in [{hosts: [\"./*\"]}], or outboundTrafficPolicy")
	}
	if s.WorkloadSelector != nil && len(s.WorkloadSelector.Labels) == 0 {
		r.warn("spec.workloadSelector.labels", nil, "selects every workload of the namespace", "name the labels of the workloads that are meant")
	}
	r.selector("spec.workloadSelector.labels", s.GetWorkloadSelector().GetLabels())
	r.ingress(s.Ingress)
	r.connectionPool("spec.inboundConnectionPool", s.InboundConnectionPool)
	r.egress(s.Egress)
	r.egressProxy("spec.outboundTrafficPolicy.egressProxy", s.OutboundTrafficPolicy)
}

func (r *report) egressProxy(field string, p *networking.OutboundTrafficPolicy) {
	if p.GetEgressProxy() == nil {
		return
	}
	if p.Mode != networking.OutboundTrafficPolicy_ALLOW_ANY {
		r.reject(field, nil, "needs mode ALLOW_ANY", "set spec.outboundTrafficPolicy.mode to ALLOW_ANY, or remove it")
		return
	}
	if _, err := host.ParseExact(p.EgressProxy.Host); err != nil {
		r.hostError(at(field, "host"), p.EgressProxy.Host, err)
	}
	if p.EgressProxy.Port == nil {
		r.reject(at(field, "port"), nil, "it is missing", "write it, as in {number: 443}")
		return
	}
	r.port(at(field, "port.number"), p.EgressProxy.Port.Number)
	r.subsetName(at(field, "subset"), p.EgressProxy.Subset)
}

func (r *report) ingress(listeners []*networking.IstioIngressListener) {
	seen := map[uint32]bool{}
	for i, l := range listeners {
		field := at("spec.ingress", i)
		if l.Port == nil {
			r.reject(at(field, "port"), nil, "it is missing", "write it, as in {number: 8080, name: http, protocol: HTTP}")
			continue
		}
		r.sidecarPort(at(field, "port"), l.Port)
		r.port(at(field, "port.number"), l.Port.Number)
		if config.IsOwnPort(l.Port.Number) {
			r.reject(at(field, "port.number"), l.Port.Number, "the port is the proxy's or its agent's own in every pod", "let the app use another port")
		}
		if seen[l.Port.Number] {
			r.reject(at(field, "port.number"), l.Port.Number, "the port is there twice", "write each port once")
		}
		seen[l.Port.Number] = true
		r.bind(at(field, "bind"), l.Bind)
		r.defaultEndpoint(at(field, "defaultEndpoint"), l.DefaultEndpoint)
		r.ingressTLS(at(field, "tls"), l)
		r.connectionPool(at(field, "connectionPool"), l.ConnectionPool)
	}
}

func (r *report) ingressTLS(field string, l *networking.IstioIngressListener) {
	t := l.Tls
	if t == nil {
		return
	}
	if t.Mode == networking.ServerTLSSettings_ISTIO_MUTUAL || t.Mode == networking.ServerTLSSettings_AUTO_PASSTHROUGH {
		r.reject(at(field, "mode"), t.Mode, "is not supported for a sidecar's listener", "use SIMPLE or MUTUAL")
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"httpsRedirect", t.HttpsRedirect}, {"subjectAltNames", len(t.SubjectAltNames) > 0}, {"credentialName", t.CredentialName != ""},
		{"credentialNames", len(t.CredentialNames) > 0}, {"tlsCertificates", len(t.TlsCertificates) > 0},
	} {
		if f.set {
			r.reject(at(field, f.name), nil, "is not supported for a sidecar's listener", "remove it")
		}
	}
	if !isTLS(strings.ToUpper(l.Port.Protocol)) {
		r.reject(field, nil, "a listener whose protocol is not TLS cannot have TLS settings", "set port.protocol to HTTPS or TLS")
	}
	r.serverSettings(field, t)
}

func (r *report) egress(listeners []*networking.IstioEgressListener) {
	catchAll := -1
	ports, sockets := map[uint32]bool{}, map[string]bool{}
	for i, l := range listeners {
		field := at("spec.egress", i)
		switch {
		case l.Port != nil:
			r.egressPort(field, l, ports, sockets)
		case catchAll >= 0:
			r.reject(field, nil, "is a second listener without a port", "join its hosts with those of "+at("spec.egress", catchAll))
		case i != len(listeners)-1:
			r.reject(field, nil, "a listener without a port takes what the others leave, so it must be the last", "move it to the end")
			catchAll = i
		default:
			catchAll = i
		}
		if len(l.Hosts) == 0 {
			r.reject(at(field, "hosts"), nil, "there is no host", `write at least one, as in "./*"; "~/*" means none`)
		}
		for j, h := range l.Hosts {
			r.namespacedHost(at(field, "hosts", j), h, false)
		}
	}
}

// egressPort checks a listener's port and where it is bound. Port 0 is a Unix socket's.
func (r *report) egressPort(field string, l *networking.IstioEgressListener, ports map[uint32]bool, sockets map[string]bool) {
	r.sidecarPort(at(field, "port"), l.Port)
	if l.Port.Number != 0 {
		r.port(at(field, "port.number"), l.Port.Number)
		if ports[l.Port.Number] {
			r.reject(at(field, "port.number"), l.Port.Number, "another listener has the same port", "join their hosts in one listener")
		}
		ports[l.Port.Number] = true
		r.bind(at(field, "bind"), l.Bind)
		return
	}
	if !strings.HasPrefix(l.Bind, unixPrefix) {
		r.reject(at(field, "bind"), l.Bind, "port 0 is for Unix sockets", "write unix:///PATH, or a port from 1 to 65535")
	} else {
		r.unixPath(at(field, "bind"), l.Bind)
	}
	if l.CaptureMode == networking.CaptureMode_IPTABLES {
		r.reject(at(field, "captureMode"), l.CaptureMode, "connections to a Unix socket are not caught by iptables", "write NONE, or remove it")
	}
	if sockets[l.Bind] {
		r.reject(at(field, "bind"), l.Bind, "another listener has the same socket", "join their hosts in one listener")
	}
	sockets[l.Bind] = true
}

func (r *report) sidecarPort(field string, p *networking.SidecarPort) {
	if p.Name != "" && !isLabel(p.Name) {
		r.reject(at(field, "name"), p.Name, "is no port's name", "use letters, digits and hyphens, at most 63")
	}
	r.protocol(at(field, "protocol"), p.Protocol)
	if p.TargetPort != 0 {
		r.reject(at(field, "targetPort"), p.TargetPort, "has no effect", "remove it; defaultEndpoint says where to forward to")
	}
}

func (r *report) bind(field, value string) {
	if value == "" {
		return
	}
	if _, err := netip.ParseAddr(value); err != nil {
		r.reject(field, value, "is no address", "write an IP address")
	}
}

// defaultEndpoint checks where a listener forwards to: a port of the workload, or a Unix socket.
func (r *report) defaultEndpoint(field, value string) {
	switch {
	case value == "":
		return
	case strings.HasPrefix(value, unixPrefix):
		r.unixPath(field, value)
		return
	}
	address, port, err := net.SplitHostPort(value)
	n, notNumber := strconv.Atoi(port)
	switch {
	case err != nil || notNumber != nil || n < 1 || n > 65535:
		r.reject(field, value, "is no endpoint", `write IP:PORT as in "127.0.0.1:8080", or unix:///PATH`)
	case !slices.Contains([]string{"", "127.0.0.1", "0.0.0.0", "::1", "::"}, address):
		r.reject(field, value, "is not the workload's own address", "write 127.0.0.1:PORT, [::1]:PORT, 0.0.0.0:PORT or [::]:PORT")
	case config.IsInnerPort(uint32(n)):
		r.reject(field, value, "the port is the proxy's or its agent's own in every pod", "name a port of the app")
	}
}

// checkIngress warns of what a Sidecar says of what comes to pods where their proxies do not look into it.
func (w *world) checkIngress(r *report, s *networking.Sidecar) {
	if len(s.Ingress) > 0 && !w.cfg.MutualTLS {
		r.warn("spec.ingress", nil, "proxies do not look into what comes to pods in this mesh: it goes to the app at the port that it was made to, whatever is said of ports here",
			"remove sallyport.mutualTLS: false from the mesh's settings, or spec.ingress")
	}
}
