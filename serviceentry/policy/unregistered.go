package policy

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/wire"
)

// unregistered follows the outbound traffic policy of the workload's Sidecar, or the mesh's.
func (a asking) unregistered(d Destination, shown resolve.Attempt) Verdict {
	return a.follows(a.Unregistered(d), d, shown)
}

// follows is the verdict of one of its routes.
func (a asking) follows(r resolve.UnregisteredRoute, d Destination, shown resolve.Attempt) Verdict {
	rest := a.OutboundPolicy()
	why, missing := a.hidden(d)
	v := Verdict{DecidedBy: Object{rest.By, rule(rest)}, Missing: missing, Path: PathBlackhole, Cluster: wire.BlackHoleCluster}
	switch {
	case r.Action == resolve.LookUp:
		v.Allowed, v.Path, v.Cluster = true, PathPassthrough, wire.DynamicCluster
		v.Reason = why + "; ALLOW_ANY_DYNAMIC_DNS lets it through, to where the proxy resolves the host (a private address is refused)"
	case r.Action == resolve.Loop:
		v.Missing, v.Reason = false, fmt.Sprintf("proxies catch their pods' traffic at port %d: passed on, it would come back; nothing can be reached at that port", d.Port)
	case r.Action == resolve.Nowhere:
		v.Reason = why + "; ALLOW_ANY does not help, since the workload's DNS gives the host an address that is made up"
	case r.Action == resolve.PassOn || r.Action == resolve.AskPod:
		v.Allowed, v.Path, v.Cluster = true, PathPassthrough, wire.PassthroughCluster
		v.Reason = why + "; ALLOW_ANY lets it through"
		if r.To == resolve.ToCluster || r.Inside {
			v.Missing, v.Reason = false, "an address of the cluster's own networks, which is not outside"
		}
	default:
		v.Reason = why + "; REGISTRY_ONLY closes it"
	}
	if r.Leaves() {
		a.leaves(&v, d, shown)
	}
	if v.Allowed && r.Action == resolve.AskPod {
		return a.toPod(v, d, shown)
	}
	return v
}

// leaves asks the policies about what nobody registered and is let through all the same: by the name that the proxy sees, or the address.
func (a asking) leaves(v *Verdict, d Destination, shown resolve.Attempt) {
	if !a.permitted(v, about{hostShown(shown), d.Port, spokenAs(shown.Kind), shown.Request, a.at, nil}) {
		v.Path, v.Cluster, v.Missing = PathBlackhole, wire.BlackHoleCluster, false
	}
}

// hostShown is the host that a proxy sees: by its name, or the address.
func hostShown(x resolve.Attempt) string {
	if x.Name == "" && x.Address.IsValid() {
		return x.Address.String()
	}
	return x.Name
}

// rule quotes the field that says what happens.
func rule(r resolve.OutboundPolicy) string {
	switch {
	case r.AllowAny && r.Dynamic:
		return "outboundTrafficPolicy.mode: ALLOW_ANY_DYNAMIC_DNS"
	case r.AllowAny:
		return "outboundTrafficPolicy.mode: ALLOW_ANY"
	default:
		return "outboundTrafficPolicy.mode: REGISTRY_ONLY"
	}
}

// hidden tells a host that nobody registered from one whose registration does not count for the workload, and whether
// an entry of the workload's own namespace would help. Beside one that it sees, it would not: of one host, a workload
// sees one entry; nor beside a Service of the mesh, whose names are the Service's.
func (a asking) hidden(d Destination) (why string, missing bool) {
	d.Host = a.Completed(d.Host)
	why, missing = a.hiddenHost(d)
	return why, missing && !a.IsService(d.Host)
}

func (a asking) hiddenHost(d Destination) (why string, missing bool) {
	ns := a.workload.Namespace
	own := &registry.Service{Host: d.Host, Namespace: ns, Traits: &registry.Traits{}}
	if _, is := host.Addr(d.Host); is {
		own.Host = HostOfAddress(d.Host)
	}
	missing = a.Scope().Sees(ns, own, d.Port)
	if !a.snap.Registered(d.Host) {
		return a.byNobody(missing)
	}
	if svc := a.snap.Visible(d.Host, ns, nil); svc != nil {
		if _, has := svc.Port(d.Port); has && !a.Scope().Sees(ns, svc, d.Port) {
			return a.hiddenBy(svc), missing
		}
	}
	if svc := a.Sidecar.Visible(d.Host); svc != nil {
		if _, has := svc.Port(d.Port); has && len(svc.Addresses) > 0 {
			return fmt.Sprintf("%s registers the host, but what comes to its port %d is known by its addresses (%s), and %s shows none of them: ask with one", svc.Source, d.Port, someAddresses(svc), d.Host), false
		}
		return fmt.Sprintf("%s registers the host, but not port %d: add the port there", svc.Source, d.Port), false
	}
	if svc := a.snap.Match(d.Host, d.Port, ns, a.Scope()); svc != nil {
		return fmt.Sprintf("%s registers the host, but %s connections to port %d show no name, and the address is not registered", svc.Source, d.Scheme, d.Port), missing
	}
	if svc := a.snap.Match(d.Host, 0, ns, a.Scope()); svc != nil {
		return fmt.Sprintf("%s registers the host, but not port %d", svc.Source, d.Port), missing
	}
	if svc := a.snap.Match(d.Host, 0, ns, nil); svc != nil {
		return a.hiddenBy(svc), missing
	}
	if list := a.snap.Services(d.Host); len(list) > 0 {
		svc := list[0]
		if svc.Withheld != nil {
			return fmt.Sprintf("%s registers the host for its own namespace only: %s (%s)", svc.Source, svc.Withheld.Why, svc.Withheld.Field) + a.wouldHide(missing), missing
		}
		return fmt.Sprintf("%s registers the host, but does not export it to namespace %s", svc.Source, ns) + a.wouldHide(missing), missing
	}
	return a.byNobody(missing)
}

// hiddenBy says of a registration that the workload's Sidecar hides it. Beside that of a Service no entry helps, so it is said what does.
func (a asking) hiddenBy(svc *registry.Service) string {
	why := fmt.Sprintf("%s registers the host, but %s hides it from this workload", svc.Source, a.Scope().Key)
	if svc.Source.Kind == config.KindService {
		why += fmt.Sprintf(": add %s/%s to the hosts of a listener there (spec.egress)", svc.Namespace, svc.Host)
	}
	return why
}

// someAddresses are the first of those that were written for a service.
func someAddresses(svc *registry.Service) string {
	const shown = 3
	var out []string
	for _, a := range svc.Addresses[:min(len(svc.Addresses), shown)] {
		if a.IsSingleIP() {
			out = append(out, a.Addr().String())
		} else {
			out = append(out, a.String())
		}
	}
	if len(svc.Addresses) > shown {
		out = append(out, "…")
	}
	return strings.Join(out, ", ")
}

const byNobody = "nobody registered the host"

func (a asking) byNobody(missing bool) (string, bool) {
	return byNobody + a.wouldHide(missing), missing
}

func (a asking) wouldHide(missing bool) string {
	if missing {
		return ""
	}
	return fmt.Sprintf(", and %s would hide it from this workload", a.Scope().Key)
}

// unshared are words of hidden about what others registered for themselves.
var unshared = regexp.MustCompile(`\S+ ([^ /]+)/\S+ registers the host(?:, but does not export it to namespace [a-z0-9-]+| for its own namespace only: [^;]* \([^()]*\))`)

// Unshared is a reason as it is told to who may know of some namespaces' objects: that others have registered a host for themselves is nothing to the
// workload, and for others than who may know of it nobody registered the host.
func Unshared(reason string, may func(namespace string) bool) string {
	return unshared.ReplaceAllStringFunc(reason, func(words string) string {
		if may(unshared.FindStringSubmatch(words)[1]) {
			return words
		}
		return byNobody
	})
}

// DecideName says what the workload's DNS does with a name: whether it refuses one that nobody registered.
func DecideName(s *registry.Snapshot, w Workload, name string) Verdict {
	a := asking{snap: s, Sidecar: resolve.Workload(s, w.Namespace, w.Labels), workload: w}
	rest := a.OutboundPolicy()
	v := Verdict{Allowed: true, Path: PathDirect, DecidedBy: Object{rest.By, rule(rest)}}
	svc := a.Named(name)
	switch {
	case svc != nil:
		v.Service, v.DecidedBy, v.Reason = svc, Object{svc.Source, "hosts: " + svc.Host}, "the name is registered"
	case !s.Mesh.DNS.Refuses(rest.AllowAny):
		v.Reason = "the workload's DNS asks for names that nobody registered"
	case local(name, s.Mesh.DNS.Local):
		v.Reason = "the name is in a local domain, which the workload's DNS asks for"
	default:
		v.Allowed, v.Path, v.Missing = false, PathBlackhole, true
		v.Reason = fmt.Sprintf("%s is not registered, so the workload's DNS says that there is no such name", name)
	}
	return v
}

// local says whether a name is in the cluster's domain, or one of those that the mesh's settings call local.
func local(name string, domains []string) bool {
	for _, domain := range append([]string{wire.ClusterDomain}, domains...) {
		if name == domain || strings.HasSuffix(name, "."+domain) {
			return true
		}
	}
	return false
}
