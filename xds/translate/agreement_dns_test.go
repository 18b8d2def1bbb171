package translate_test

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// resolver is what a pod's name resolution gives: what the agent was told, else what the cluster's DNS knows, else an
// address outside that nobody wrote.
type resolver struct {
	view *translate.View
	of   *envoys
	x    tried
}

// address gives where the pod connects to; false where there is no such name, so that nothing is connected to.
func (r resolver) address(host string) (netip.Addr, bool) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip, true
	}
	outside := false // the cluster's DNS follows other names itself, without the pod's agent
	for range 9 {
		names := []string{host, host + "." + r.x.from.Namespace + ".svc.cluster.local", host + ".svc.cluster.local", host + ".cluster.local"}
		for _, n := range names {
			if ip, ok := r.told(n); ok && !outside {
				return ip, true
			}
		}
		target := ""
		for _, n := range names {
			var ip netip.Addr
			if ip, target = r.ofCluster(n); ip.IsValid() {
				return ip, true
			}
			if target != "" {
				break
			}
		}
		if target == "" {
			break
		}
		host, outside = target, true
	}
	return r.outside(host), !strings.HasSuffix(host, ".cluster.local")
}

// outside is the address that a name has in the world. Where a registration leads to addresses that are dialled, within
// ranges, it is in one: policy supposes that.
func (r resolver) outside(host string) netip.Addr {
	s, from := r.of.snapshot, r.x.from
	svc := s.Visible(host, from.Namespace, s.Scope(from.Namespace, from.Labels))
	if svc == nil || !r.shown() {
		return elsewhere
	}
	if p, ok := svc.Port(r.x.Port); !ok || p.Protocol != registry.TCP || !svc.Dialled() {
		return elsewhere
	}
	for _, a := range svc.Addresses {
		if !a.IsSingleIP() {
			return a.Addr().Next()
		}
	}
	return elsewhere
}

// shown says whether the sidecar reads a TLS name.
func (r resolver) shown() bool {
	s, from := r.of.snapshot, r.x.from
	return r.x.Scheme.IsTLS() && s.Readable(r.x.Port, from.Namespace, s.Scope(from.Namespace, from.Labels))
}

// told is what the agent's table has, by name or alias.
func (r resolver) told(host string) (netip.Addr, bool) {
	found := netip.Addr{}
	r.view.Walk(resource.Name, func(res *resource.Resource) bool {
		n, err := name.Unmarshal(res.Value())
		must(err)
		is := n.Host == host
		for _, a := range n.Aliases {
			is = is || a == host
		}
		if is && len(n.Addresses) > 0 {
			found = n.Addresses[0]
		}
		return n.Host != host
	})
	return found, found.IsValid()
}

// ofCluster is what the cluster's DNS says of a Service, or of the pods behind a headless one; target is the other name of an
// ExternalName Service.
func (r resolver) ofCluster(full string) (ip netip.Addr, target string) {
	below, ok := strings.CutSuffix(full, ".svc.cluster.local")
	if !ok {
		return netip.Addr{}, ""
	}
	parts := strings.Split(below, ".")
	if len(parts) < 2 {
		return netip.Addr{}, ""
	}
	o := r.of.objects[config.Key{Kind: config.KindService, Namespace: parts[len(parts)-1], Name: parts[len(parts)-2]}]
	if o == nil {
		return netip.Addr{}, ""
	}
	s := o.Spec.(*corev1.Service)
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		if len(parts) == 2 {
			return netip.Addr{}, s.Spec.ExternalName
		}
		return netip.Addr{}, ""
	}
	if len(parts) > 2 && s.Spec.ClusterIP != corev1.ClusterIPNone {
		return netip.Addr{}, ""
	}
	for _, svc := range r.of.snapshot.Services(strings.Join(parts[len(parts)-2:], ".") + ".svc.cluster.local") {
		if svc.Source.Kind == config.KindService && len(svc.Addresses) > 0 {
			return svc.Addresses[0].Addr(), ""
		}
	}
	return netip.Addr{}, ""
}
