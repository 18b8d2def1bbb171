package resolve

import (
	"iter"
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Find gives the registration that a destination leads to, and what the workload's proxy sees of it: by name where the protocol
// shows one and the proxy reads it, by address otherwise. nil where nobody registered it.
func (a Sidecar) Find(d Destination) (*registry.Service, Shown) {
	seen := a.shown(d)
	svc, x := a.lookUp(seen)
	if svc == nil {
		return nil, x
	}
	if p, _ := svc.Port(d.Port); p.Protocol == registry.UDP {
		return nil, x // proxies take none
	}
	return svc, x
}

func (a Sidecar) lookUp(d Destination) (*registry.Service, Shown) {
	ip, err := netip.ParseAddr(d.Host)
	literal := err == nil
	switch {
	case d.Scheme == TCP && !literal:
		ip = a.Resolved(d.Host)
		return a.byAddress(ip, d.Port), Shown{Kind: Connections, Address: ip}
	case d.Scheme == TCP:
		return a.byAddress(ip, d.Port), Shown{Kind: Connections, Address: ip}
	case d.Scheme == HTTP && literal:
		return a.byAddress(ip, d.Port), Shown{Kind: Requests, Name: d.Host}
	case d.Scheme == HTTP:
		return a.byName(d), Shown{Kind: Requests, Name: d.Host}
	case literal: // TLS to an address sends no name
		return a.byAddressTLS(ip, d.Port), Shown{Kind: TLSConnections, Again: true, Address: ip}
	default:
		return a.byName(d), Shown{Kind: TLSConnections, Name: d.Host, Address: a.Resolved(d.Host)}
	}
}

// byAddress finds what an address leads to, for all but TLS. In a TLS service's range only TLS is the service's.
func (a Sidecar) byAddress(ip netip.Addr, port uint32) *registry.Service {
	svc := a.snap.MatchAddress(ip, port, a.Namespace, a.scope)
	if svc == nil || host.MadeUp(ip) || svc.WroteSingle(ip) {
		return svc
	}
	if p, _ := svc.Port(port); p.Protocol == registry.TLS {
		return nil
	}
	return svc
}

// byAddressTLS is the same for TLS without a name. A TLS service's range is asked with the names, before addresses are.
func (a Sidecar) byAddressTLS(ip netip.Addr, port uint32) *registry.Service {
	if ranged := a.snap.MatchRange(ip, port, a.Namespace, a.scope); ranged != nil {
		if p, _ := ranged.Port(port); p.Protocol == registry.TLS {
			return ranged
		}
	}
	return a.snap.MatchAddress(ip, port, a.Namespace, a.scope)
}

func (a Sidecar) byName(d Destination) *registry.Service {
	for name := range a.names(d.Host) {
		if svc := a.Visible(name); svc != nil {
			if _, ok := svc.Port(d.Port); ok {
				return svc
			}
			if name == d.Host {
				break // it has the name, on all ports
			}
		}
	}
	return a.snap.Match(d.Host, d.Port, a.Namespace, a.scope)
}

// names goes through the hosts that a name may mean, in order: itself, a Kubernetes service that it is short for, what
// those are other names of, and the headless services that have a pod of the name, the longest first.
func (a Sidecar) names(host string) iter.Seq[string] {
	return func(yield func(string) bool) {
		full := a.kubernetesName(host)
		if !yield(host) || (full != "" && !yield(full)) {
			return
		}
		for _, name := range [...]string{host, full} {
			if target := a.snap.Aliased(name, a.Namespace, a.scope); target != "" && !yield(target) {
				return
			}
		}
		for _, rest, ok := strings.Cut(host, "."); ok; _, rest, ok = strings.Cut(rest, ".") {
			for _, name := range [...]string{rest, a.kubernetesName(rest)} {
				if svc := a.Visible(name); svc != nil && svc.Headless() && !yield(name) {
					return
				}
			}
		}
	}
}

// shown is the destination as the proxy sees it: on ports where it does not read, everything is TCP.
func (a Sidecar) shown(d Destination) Destination {
	if d.Scheme != TCP && !a.snap.Readable(d.Port, a.Namespace, a.scope) {
		d.Scheme = TCP
	}
	return d
}

// kubernetesName completes what workloads call a Kubernetes service: "web", "web.default", "web.default.svc". It is
// "" for other names.
func (a Sidecar) kubernetesName(host string) string {
	switch strings.Count(host, ".") {
	case 0:
		return registry.Ref{Namespace: a.Namespace, Name: host}.Host()
	case 1:
		return host + ".svc.cluster.local"
	case 2:
		if name, ok := strings.CutSuffix(host, ".svc"); ok {
			return name + ".svc.cluster.local"
		}
	}
	return ""
}

// Resolved is what the workload's DNS answers for a name that is registered: the address made up for it, or the
// first that was written down. It is the zero Addr where the answer comes from outside.
func (a Sidecar) Resolved(name string) netip.Addr {
	var svc *registry.Service
	for name := range a.names(name) {
		if svc = a.Visible(name); svc != nil {
			break
		}
	}
	if svc == nil {
		return netip.Addr{}
	}
	if svc.VIP4.IsValid() {
		return svc.VIP4
	}
	for _, address := range svc.Addresses {
		if address.IsSingleIP() {
			return address.Addr()
		}
	}
	return netip.Addr{}
}
