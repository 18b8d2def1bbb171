package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// unregistered follows the outbound traffic policy of the workload's Sidecar, or the mesh's.
func (a asking) unregistered(d Destination) Verdict {
	by := Object{config.Key{Kind: config.KindMeshConfig, Namespace: a.Mesh.RootNamespace, Name: "mesh"}, ""}
	if a.scope != nil && a.scope.AllowAny != nil {
		by.Key = a.scope.Key
	}
	why, missing := a.hidden(d)
	open := "outboundTrafficPolicy.mode: ALLOW_ANY"
	if a.DynamicDNS(a.scope) {
		open += "_DYNAMIC_DNS"
	}
	v := Verdict{DecidedBy: by, Missing: missing}
	switch {
	case a.DynamicDNS(a.scope) && a.byHost(d):
		v.DecidedBy.Rule = open
		v.Allowed, v.Path, v.Cluster = true, PathPassthrough, "AllowAnyDynamicDNSCluster"
		v.Reason = why + "; ALLOW_ANY_DYNAMIC_DNS lets it through, to where the proxy resolves the host (a private address is refused)"
	case a.AllowAny(a.scope) && a.madeUp(d):
		v.DecidedBy.Rule = open
		v.Path, v.Cluster = PathBlackhole, "BlackHoleCluster"
		v.Reason = why + "; ALLOW_ANY does not help, since the workload's DNS gives the host an address that is made up"
	case a.AllowAny(a.scope):
		v.DecidedBy.Rule = open
		v.Allowed, v.Path, v.Cluster = true, PathPassthrough, "PassthroughCluster"
		v.Reason = why + "; ALLOW_ANY lets it through"
	case a.inCluster(d):
		v.DecidedBy.Rule, v.Missing = "outboundTrafficPolicy.mode: REGISTRY_ONLY", false
		v.Allowed, v.Path, v.Cluster = true, PathPassthrough, "PassthroughCluster"
		v.Reason = "an address of the cluster's own networks, which is not outside"
	default:
		v.DecidedBy.Rule = "outboundTrafficPolicy.mode: REGISTRY_ONLY"
		v.Path, v.Cluster = PathBlackhole, "BlackHoleCluster"
		v.Reason = why + "; REGISTRY_ONLY closes it"
	}
	return v
}

// byHost says whether a request goes where the proxy resolves its Host: one that it reads, with a name that can be
// looked up.
func (a asking) byHost(d Destination) bool {
	last := d.Host[strings.LastIndexByte(d.Host, '.')+1:]
	return a.shown(d).Scheme == HTTP && last != d.Host && last != "localhost" && last != "" && (last[0] < '0' || last[0] > '9')
}

// inCluster says whether the destination is in the cluster's own networks: an address there, or a name that only the
// cluster's DNS answers and that has no virtual address, which pods of headless Services have.
func (a asking) inCluster(d Destination) bool {
	if ip, err := netip.ParseAddr(d.Host); err == nil {
		return a.InCluster(ip)
	}
	if len(a.Networks()) == 0 || !strings.HasSuffix(d.Host, ".svc.cluster.local") {
		return false
	}
	return !slices.ContainsFunc(a.Services(d.Host), func(svc *registry.Service) bool { return svc.External || len(svc.Addresses) > 0 })
}

// madeUp says whether the destination's address leads nowhere but to what is registered for it.
func (a asking) madeUp(d Destination) bool {
	if ip, err := netip.ParseAddr(d.Host); err == nil {
		return host.MadeUp(ip)
	}
	return host.MadeUp(a.resolved(d))
}

// hidden tells a host that nobody registered from one whose registration does not count for the workload, and whether
// an entry of the workload's own namespace would help. Beside one that it sees, it would not: of one host, a workload
// sees one entry.
func (a asking) hidden(d Destination) (why string, missing bool) {
	ns := a.workload.Namespace
	own := &registry.Service{Host: d.Host, Namespace: ns}
	if _, err := netip.ParseAddr(d.Host); err == nil {
		own.Host = hostOfAddress(d.Host)
	}
	missing = a.scope.Sees(ns, own, d.Port)
	if svc := a.Visible(d.Host, ns, nil); svc != nil {
		if _, has := svc.Port(d.Port); has && !a.scope.Sees(ns, svc, d.Port) {
			return fmt.Sprintf("%s registers the host, but %s hides it from this workload", svc.Source, a.scope.Key), missing
		}
	}
	if svc := a.Visible(d.Host, ns, a.scope); svc != nil {
		return fmt.Sprintf("%s registers the host, but not port %d: add the port there", svc.Source, d.Port), false
	}
	if svc := a.Match(d.Host, d.Port, ns, a.scope); svc != nil {
		return fmt.Sprintf("%s registers the host, but %s connections to port %d show no name, and the address is not registered", svc.Source, d.Scheme, d.Port), missing
	}
	if svc := a.Match(d.Host, 0, ns, a.scope); svc != nil {
		return fmt.Sprintf("%s registers the host, but not port %d", svc.Source, d.Port), missing
	}
	if svc := a.Match(d.Host, 0, ns, nil); svc != nil {
		return fmt.Sprintf("%s registers the host, but %s hides it from this workload", svc.Source, a.scope.Key), missing
	}
	if list := a.Services(d.Host); len(list) > 0 {
		svc := list[0]
		if svc.Withheld.Why != "" {
			return fmt.Sprintf("%s registers the host for its own namespace only: %s (%s)", svc.Source, svc.Withheld.Why, svc.Withheld.Field), missing
		}
		return fmt.Sprintf("%s registers the host, but does not export it to namespace %s", svc.Source, ns), missing
	}
	if !missing {
		return fmt.Sprintf("nobody registered the host, and %s would hide it from this workload", a.scope.Key), false
	}
	return "nobody registered the host", true
}
