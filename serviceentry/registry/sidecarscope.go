package registry

import (
	"cmp"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
)

// SidecarScope is what a Sidecar object says: which hosts its workloads see, at which ports, what happens to those that nobody registered, and which of
// their own ports are led to.
type SidecarScope struct {
	Key      config.Key
	Created  time.Time
	Selector map[string]string // empty: all workloads of the namespace (of the mesh, in the root namespace)
	Egress   []Listener        // nil: everything that is exported to the namespace; empty: nothing
	AllowAny *bool             // nil: as the mesh says
	Ingress  []InboundPort     // the ports that are led to, whatever Services say; nil: as they say
	Hash     uint64
}

// Listener is one of a Sidecar's egress listeners. A port that has a listener of its own is governed by that one alone;
// the listener without a port governs all others.
type Listener struct {
	Port   uint32 // 0: the ports that no other listener has
	Hosts  []HostFilter
	Except []HostFilter // these are taken out again
}

// HostFilter is one "namespace/host" of a listener's list.
type HostFilter struct {
	Namespace string // a name, "." for the own, "*" for any
	Host      string // exact, "*.suffix" or "*"
}

// hostFilter reads "NAMESPACE/HOST", or "HOST" for that of any namespace.
func hostFilter(text string) HostFilter {
	ns, host, ok := strings.Cut(text, "/")
	if !ok {
		ns, host = "*", text
	}
	return HostFilter{Namespace: ns, Host: CanonicalHost(host)}
}

func fromSidecar(o *config.Object, spec *networking.Sidecar) *SidecarScope {
	s := &SidecarScope{Key: o.Key, Created: o.Created, Selector: spec.GetWorkloadSelector().GetLabels(), Hash: o.Hash}
	if len(spec.Egress) > 0 {
		s.Egress = []Listener{}
	}
	for _, l := range spec.Egress {
		if catches(l) {
			s.Egress = append(s.Egress, fromListener(l))
		}
	}
	s.Ingress = ingressPorts(spec.Ingress)
	if p := spec.OutboundTrafficPolicy; p != nil {
		// A proxy that unregistered hosts are to be reached by is not programmed: without it they are closed.
		allow := p.Mode == networking.OutboundTrafficPolicy_ALLOW_ANY && p.EgressProxy == nil
		s.AllowAny = &allow
	}
	return s
}

// catches says whether a listener is about the connections that iptables catches. One that is bound to an address, or
// says that nothing is caught, gives its hosts to nobody here.
func catches(l *networking.IstioEgressListener) bool {
	return (l.Bind == "" || l.Bind == "0.0.0.0" || l.Bind == "::") && l.CaptureMode != networking.CaptureMode_NONE
}

func fromListener(l *networking.IstioEgressListener) Listener {
	out := Listener{Port: l.GetPort().GetNumber()}
	for _, h := range l.Hosts {
		f := hostFilter(h)
		var except bool
		if f.Namespace, except = strings.CutPrefix(f.Namespace, "~"); f.Namespace == "" {
			f.Namespace = "*" // "~/HOST" takes it out of every namespace
		}
		if except {
			out.Except = append(out.Except, f)
		} else {
			out.Hosts = append(out.Hosts, f)
		}
	}
	return out
}

// Sees says whether the scope lets its workloads, in namespace own, see the service at a port.
func (s *SidecarScope) Sees(own string, svc *Service, port uint32) bool {
	if s == nil || s.Egress == nil {
		return true
	}
	l := s.listener(port)
	return l != nil && anyOf(l.Hosts, own, svc) && !anyOf(l.Except, own, svc)
}

// listener finds the one that governs a port.
func (s *SidecarScope) listener(port uint32) *Listener {
	var rest *Listener
	for i := range s.Egress {
		switch s.Egress[i].Port {
		case port:
			return &s.Egress[i]
		case 0:
			rest = &s.Egress[i]
		}
	}
	return rest
}

func anyOf(filters []HostFilter, own string, svc *Service) bool {
	in := svc.Namespace
	if svc.Unregistered {
		in = svc.Source.Namespace
	}
	return slices.ContainsFunc(filters, func(f HostFilter) bool {
		ns := f.Namespace
		if ns == "." {
			ns = own
		}
		return (ns == "*" || ns == in) && Covers(f.Host, svc.Host)
	})
}

// narrow gives the service as workloads in namespace own see it: as it is, with fewer ports, or, where they see none of
// its ports, nil.
func (s *SidecarScope) narrow(own string, svc *Service) *Service {
	if s == nil || s.Egress == nil {
		return svc
	}
	hidden := func(p Port) bool { return !s.Sees(own, svc, p.Number) }
	switch {
	case len(svc.Ports) == 0:
		if !s.Sees(own, svc, 0) {
			return nil
		}
		return svc
	case !slices.ContainsFunc(svc.Ports, hidden):
		return svc
	}
	ports := slices.DeleteFunc(slices.Clone(svc.Ports), hidden)
	if len(ports) == 0 {
		return nil
	}
	less := *svc
	less.Ports = ports
	for _, p := range ports {
		less.Hash = (less.Hash ^ uint64(p.Number)) * 1099511628211 // FNV-1a: other ports, another service
	}
	return &less
}

// Covers says whether a pattern ("*", "*.suffix", exact) covers a host, which may be a wildcard itself.
func Covers(pattern, host string) bool {
	if pattern == "*" || pattern == host {
		return true
	}
	suffix, ok := strings.CutPrefix(pattern, "*")
	return ok && strings.HasSuffix(host, suffix) && len(host) > len(suffix)
}

// selects says whether labels carry everything that the selector asks for.
func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func (b *batch) setScope(c config.Change) {
	b.changed.Scopes = append(b.changed.Scopes, c.Key)
	b.next.scopes = afterChange(b.next.scopes, c, func(o *config.Object) *SidecarScope {
		return fromSidecar(o, o.Spec.(*networking.Sidecar))
	}, func(s *SidecarScope) config.Key { return s.Key }, func(x, y *SidecarScope) int {
		return cmp.Or(-cmp.Compare(min(len(x.Selector), 1), min(len(y.Selector), 1)), x.Created.Compare(y.Created), x.Key.Compare(y.Key))
	})
}
