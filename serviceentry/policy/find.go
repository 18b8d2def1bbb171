package policy

import (
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
	for _, name := range a.names(d.Host) {
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

// names are the hosts that a name may mean, in order: itself, a Kubernetes service that it is short for, what that is
// another name of, and the headless service that has a pod of the name.
func (a asking) names(host string) []string {
	names := []string{host}
	if full := a.kubernetesName(host); full != "" {
		names = append(names, full)
	}
	for _, name := range slices.Clone(names) {
		if target := a.Aliased(name, a.workload.Namespace, a.scope); target != "" {
			names = append(names, target)
		}
	}
	return append(names, a.headless(host)...)
}

// headless are the headless services that a pod's name is below, the longest first.
func (a asking) headless(host string) (out []string) {
	for _, rest, ok := strings.Cut(host, "."); ok; _, rest, ok = strings.Cut(rest, ".") {
		for _, name := range []string{rest, a.kubernetesName(rest)} {
			if svc := a.Visible(name, a.workload.Namespace, a.scope); svc != nil && svc.Headless() {
				out = append(out, name)
			}
		}
	}
	return out
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
	parts := strings.Split(host, ".")
	switch {
	case len(parts) == 1:
		return registry.Ref{Namespace: a.workload.Namespace, Name: parts[0]}.Host()
	case len(parts) == 2, len(parts) == 3 && parts[2] == "svc":
		return registry.Ref{Namespace: parts[1], Name: parts[0]}.Host()
	default:
		return ""
	}
}

// resolved is what the workload's DNS answers for a name that is registered: the address made up for it, or the
// first that was written down. It is the zero Addr where the answer comes from outside.
func (a asking) resolved(d Destination) netip.Addr {
	var svc *registry.Service
	for _, name := range a.names(d.Host) {
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
