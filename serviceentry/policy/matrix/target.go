package matrix

import (
	"strings"
	"time"

	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// target is a port of a host, and how it is tried.
type target struct {
	host   string // a name, an address or a pattern
	port   uint32
	scheme policy.Scheme
}

var protocols = map[policy.Scheme]string{policy.HTTP: "HTTP", policy.TLS: "TLS", policy.HTTPS: "TLS", policy.TCP: "TCP"}

// destination is what is asked for: of a pattern, a name that it covers.
func (t target) destination(at time.Time) policy.Destination {
	name := t.host
	if suffix, wild := strings.CutPrefix(name, "*."); wild {
		name = anything + "." + suffix
	}
	return policy.Destination{Scheme: t.scheme, Host: name, Port: t.port, At: at}
}

// targetsOf are a registration's ports; datagrams do not count.
func targetsOf(svc *registry.Service) (out []target) {
	for _, p := range svc.Ports {
		switch {
		case p.Protocol.IsHTTP():
			out = append(out, target{svc.Host, p.Number, policy.HTTP})
		case p.Protocol == registry.TLS:
			out = append(out, target{svc.Host, p.Number, policy.HTTPS})
		case p.Protocol == registry.TCP:
			out = append(out, target{svc.Host, p.Number, policy.TCP})
		}
	}
	return out
}

// targetsFor are the ports with which a host, or a pattern that covers it, is registered by anybody; of one port the first
// registration says how it is tried. port keeps it to one, which need not be registered.
func targetsFor(s *registry.Snapshot, host string, port uint32) []target {
	var out []target
	seen := map[uint32]bool{}
	for candidate := host; candidate != ""; candidate = wider(candidate) {
		for _, svc := range s.Services(candidate) {
			for _, t := range targetsOf(svc) {
				if t.host = host; !seen[t.port] && (port == 0 || port == t.port) {
					seen[t.port] = true
					out = append(out, t)
				}
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	switch port {
	case 0, 443:
		return []target{{host, 443, policy.HTTPS}}
	case 80:
		return []target{{host, 80, policy.HTTP}}
	default:
		return []target{{host, port, policy.TCP}}
	}
}

// wider is the next pattern that covers a host, or a pattern; "" after the last.
func wider(host string) string {
	_, rest, more := strings.Cut(strings.TrimPrefix(host, "*."), ".")
	if !more {
		return ""
	}
	return "*." + rest
}
