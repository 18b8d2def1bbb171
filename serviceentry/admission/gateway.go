package admission

import (
	"net/netip"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/serviceentry/host"
)

func (r *report) gateway(g *networking.Gateway) {
	if len(g.Servers) == 0 {
		r.reject("spec.servers", nil, "there is no server", "write at least one, with port and hosts")
	}
	if len(g.Selector) == 0 {
		r.warn("spec.selector", nil, "selects every gateway of the mesh", "name the labels of the gateway's pods, as in {istio: egressgateway}")
	}
	r.selector("spec.selector", g.Selector)
	names := map[string]bool{}
	for i, s := range g.Servers {
		field := at("spec.servers", i)
		r.server(field, s)
		if name := s.GetPort().GetName(); name != "" {
			if names[name] {
				r.reject(at(field, "port.name"), name, "the name is there twice", "give each server's port its own name")
			}
			names[name] = true
		}
	}
}

func (r *report) server(field string, s *networking.Server) {
	if len(s.Hosts) == 0 {
		r.reject(at(field, "hosts"), nil, "there is no host", `name at least one, or "*" for all`)
	}
	for i, h := range s.Hosts {
		r.namespacedHost(at(field, "hosts", i), h, true)
	}
	if s.Bind != "" {
		if _, err := netip.ParseAddr(s.Bind); err != nil && !strings.HasPrefix(s.Bind, unixPrefix) {
			r.reject(at(field, "bind"), s.Bind, "is no address", "write an IP address, or unix:///PATH")
		}
	}
	if s.DefaultEndpoint != "" {
		r.defaultEndpoint(at(field, "defaultEndpoint"), s.DefaultEndpoint)
	}
	if s.Port == nil {
		r.reject(at(field, "port"), nil, "it is missing", "write it, as in {number: 443, name: tls, protocol: TLS}")
		return
	}
	// Number 0 stands for a Unix socket's.
	if s.Port.Number != 0 || !strings.HasPrefix(s.Bind, unixPrefix) {
		r.port(at(field, "port.number"), s.Port.Number)
	}
	if s.Port.Name == "" {
		r.reject(at(field, "port.name"), nil, "the port has no name", `give it one, as in "tls"`)
	}
	protocol := r.protocol(at(field, "port.protocol"), s.Port.Protocol)
	if protocol == "" || protocol == "UDP" {
		r.reject(at(field, "port.protocol"), s.Port.Protocol, "a gateway's server needs a protocol over TCP", "write HTTP, HTTPS, TLS, TCP, HTTP2 or GRPC")
	}
	if s.Port.TargetPort != 0 {
		r.warn(at(field, "port.targetPort"), s.Port.TargetPort, "is deprecated and has no effect", "remove it")
	}
	r.serverTLS(field, s, protocol)
}

// serverTLS checks that the TLS settings fit the port's protocol, and then themselves.
func (r *report) serverTLS(field string, s *networking.Server, protocol string) {
	tls := at(field, "tls")
	switch {
	case s.Tls == nil && isTLS(protocol):
		r.reject(tls, nil, "a server of protocol "+protocol+" needs TLS settings", "write tls.mode, as in {mode: PASSTHROUGH}")
		return
	case s.Tls == nil:
		return
	case isHTTP(protocol) && (s.Tls.Mode != networking.ServerTLSSettings_PASSTHROUGH || s.Tls.ServerCertificate != "" || s.Tls.PrivateKey != "" || s.Tls.CaCertificates != ""):
		r.reject(tls, nil, "a plain-text server cannot have TLS settings", "set port.protocol to HTTPS, or keep only tls.httpsRedirect")
		return
	case !isHTTP(protocol) && !isTLS(protocol):
		r.reject(tls, nil, "a server of protocol "+protocol+" cannot have TLS settings", "set port.protocol to TLS")
		return
	}
	r.serverSettings(tls, s.Tls)
}

func (r *report) serverSettings(field string, t *networking.ServerTLSSettings) {
	credentials := 0
	for _, set := range []bool{t.CredentialName != "", len(t.CredentialNames) > 0, len(t.TlsCertificates) > 0} {
		if set {
			credentials++
		}
	}
	if credentials > 1 {
		r.reject(field, nil, "only one of credentialName, credentialNames and tlsCertificates can be set", "keep one")
	}
	if t.MinProtocolVersion != 0 && t.MaxProtocolVersion != 0 && t.MinProtocolVersion > t.MaxProtocolVersion {
		r.reject(at(field, "minProtocolVersion"), t.MinProtocolVersion, "is above maxProtocolVersion", "lower it, or raise the other")
	}
	files := map[string]string{"serverCertificate": t.ServerCertificate, "privateKey": t.PrivateKey, "caCertificates": t.CaCertificates}
	switch t.Mode {
	case networking.ServerTLSSettings_ISTIO_MUTUAL:
		for _, name := range sortedKeys(files) {
			if files[name] != "" {
				r.reject(at(field, name), files[name], "cannot be set with mode ISTIO_MUTUAL, which uses the workload's own certificate", "remove it, or set mode to MUTUAL")
			}
		}
		if credentials > 0 {
			r.reject(field, nil, "mode ISTIO_MUTUAL takes no credentials of your own", "remove them, or set mode to MUTUAL")
		}
	case networking.ServerTLSSettings_SIMPLE, networking.ServerTLSSettings_OPTIONAL_MUTUAL, networking.ServerTLSSettings_MUTUAL:
		if credentials > 0 {
			return
		}
		need := []string{"serverCertificate", "privateKey"}
		if t.Mode != networking.ServerTLSSettings_SIMPLE && t.CaCertCredentialName == "" {
			need = append(need, "caCertificates")
		}
		for _, name := range need {
			if files[name] == "" {
				r.reject(at(field, name), nil, "mode "+t.Mode.String()+" needs it", "write it, or tls.credentialName with the name of a secret")
			}
		}
	}
}

// namespacedHost checks "NAMESPACE/HOST", which gateways also take without a namespace and with an IP address.
func (r *report) namespacedHost(field, value string, gateway bool) {
	ns, name, ok := strings.Cut(value, "/")
	if !ok {
		if !gateway {
			r.reject(field, value, "names no namespace", `write NAMESPACE/HOST, as in "*/`+value+`" for every namespace or "./`+value+`" for its own`)
			return
		}
		name, ns = value, "*"
	}
	if ns != "*" && ns != "." && (gateway || ns != "~") && len(validation.IsDNS1123Label(ns)) > 0 {
		r.reject(field, value, "its part before the slash is no namespace", `write "*", "." or the name of a namespace`)
	}
	if _, err := netip.ParseAddr(name); err == nil && gateway {
		return
	}
	n, err := host.ParsePattern(name)
	switch {
	case err != nil:
		r.hostError(field, value, err)
	case n != host.Any && !strings.Contains(string(n), "."):
		r.reject(field, value, "short names are not allowed here", "write the full name, as in "+string(n)+".default.svc.cluster.local")
	}
}

// defaultEndpoint checks where a listener forwards to: IP:PORT of the workload, or a Unix socket.
func (r *report) defaultEndpoint(field, value string) {
	if path, unix := strings.CutPrefix(value, unixPrefix); unix {
		if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "@") {
			r.reject(field, value, "is no absolute path of a socket", "write unix:///PATH")
		}
		return
	}
	addr, err := netip.ParseAddrPort(value)
	if err != nil || addr.Port() == 0 {
		r.reject(field, value, "is no endpoint", `write IP:PORT as in "127.0.0.1:8080", or unix:///PATH`)
		return
	}
	if a := addr.Addr(); !a.IsLoopback() && !a.IsUnspecified() {
		r.reject(field, value, "is not the workload's own address", "write 127.0.0.1:PORT, [::1]:PORT, 0.0.0.0:PORT or [::]:PORT")
	}
}
