package policy

import (
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// asking is who asks what a snapshot says, as far as its scope lets it see.
type asking struct {
	*registry.Snapshot
	workload Workload
	scope    *registry.Scope
}

// find looks the destination up as a sidecar does: by name where the protocol shows one and the proxy reads it, by
// address otherwise.
func (a asking) find(d Destination) *registry.Service {
	svc := a.lookUp(d)
	if svc == nil {
		return nil
	}
	p, _ := svc.Port(d.Port)
	if p.Protocol == registry.UDP {
		return nil // proxies take none
	}
	if ip, err := netip.ParseAddr(d.Host); err == nil && !a.takes(svc, p, d, ip) {
		return nil
	}
	return svc
}

// takes says whether a service is meant by an address of its own. TLS to the written address of an HTTP service is
// not, nor is anything but TLS in a range of a TLS service: other hosts may be there.
func (a asking) takes(svc *registry.Service, p registry.Port, d Destination, ip netip.Addr) bool {
	single := slices.Contains(svc.Addresses, netip.PrefixFrom(ip, ip.BitLen()))
	tls := a.shown(d).Scheme == TLS || a.shown(d).Scheme == HTTPS
	switch {
	case host.MadeUp(ip):
		return true
	case single:
		return !tls || !p.Protocol.IsHTTP()
	default:
		return tls || p.Protocol != registry.TLS
	}
}

func (a asking) lookUp(d Destination) *registry.Service {
	ip, err := netip.ParseAddr(d.Host)
	literal := err == nil
	switch spoken := a.shown(d).Scheme; {
	case literal && spoken != HTTP && spoken != TCP: // TLS to an address sends no name
		ranged := a.MatchRange(ip, d.Port, a.workload.Namespace, a.scope)
		if ranged != nil {
			if p, _ := ranged.Port(d.Port); p.Protocol == registry.TLS {
				return ranged // its range is asked with the names
			}
		}
		return a.MatchAddress(ip, d.Port, a.workload.Namespace, a.scope)
	case literal:
		return a.MatchAddress(ip, d.Port, a.workload.Namespace, a.scope)
	case spoken == TCP:
		return a.MatchAddress(a.resolved(d), d.Port, a.workload.Namespace, a.scope)
	}
	for name := range a.names(d.Host) {
		if svc := a.Visible(name, a.workload.Namespace, a.scope); svc != nil {
			if _, ok := svc.Port(d.Port); ok {
				return svc
			}
			if name == d.Host {
				break // it has the name, on all ports
			}
		}
	}
	return a.Match(d.Host, d.Port, a.workload.Namespace, a.scope)
}

// names goes through the hosts that a name may mean, in order: itself, a Kubernetes service that it is short for, what
// those are other names of, and the headless services that have a pod of the name, the longest first.
func (a asking) names(host string) iter.Seq[string] {
	return func(yield func(string) bool) {
		full := a.kubernetesName(host)
		if !yield(host) || (full != "" && !yield(full)) {
			return
		}
		for _, name := range [...]string{host, full} {
			if target := a.Aliased(name, a.workload.Namespace, a.scope); target != "" && !yield(target) {
				return
			}
		}
		for _, rest, ok := strings.Cut(host, "."); ok; _, rest, ok = strings.Cut(rest, ".") {
			for _, name := range [...]string{rest, a.kubernetesName(rest)} {
				if svc := a.Visible(name, a.workload.Namespace, a.scope); svc != nil && svc.Headless() && !yield(name) {
					return
				}
			}
		}
	}
}

// shown is the destination as the proxy sees it: on ports where it does not read, everything is TCP.
func (a asking) shown(d Destination) Destination {
	if d.Scheme != TCP && !a.Readable(d.Port, a.workload.Namespace, a.scope) {
		d.Scheme = TCP
	}
	return d
}

// kubernetesName completes what workloads call a Kubernetes service: "web", "web.default", "web.default.svc". It is
// "" for other names.
func (a asking) kubernetesName(host string) string {
	switch strings.Count(host, ".") {
	case 0:
		return registry.Ref{Namespace: a.workload.Namespace, Name: host}.Host()
	case 1:
		return host + ".svc.cluster.local"
	case 2:
		if name, ok := strings.CutSuffix(host, ".svc"); ok {
			return name + ".svc.cluster.local"
		}
	}
	return ""
}

// resolved is what the workload's DNS answers for a name that is registered: the address made up for it, or the
// first that was written down. It is the zero Addr where the answer comes from outside.
func (a asking) resolved(d Destination) netip.Addr {
	var svc *registry.Service
	for name := range a.names(d.Host) {
		if svc = a.Visible(name, a.workload.Namespace, a.scope); svc != nil {
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
