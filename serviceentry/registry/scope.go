package registry

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/serviceentry"
)

// Scope is what a Sidecar object says about egress: which hosts its workloads see, and what happens to those
// that nobody registered.
type Scope struct {
	Key      serviceentry.Key
	Selector map[string]string // empty: all workloads of the namespace (of the mesh, in the root namespace)
	Egress   []HostFilter      // nil: everything that is exported to the namespace
	AllowAny *bool             // nil: as the mesh says
	Hash     uint64
}

// HostFilter is one "namespace/host" of a Sidecar's egress list.
type HostFilter struct {
	Namespace string // a name, "." for the own, "*" for any
	Host      string // exact, "*.suffix" or "*"
}

func fromSidecar(o *serviceentry.Object, spec *networking.Sidecar) *Scope {
	s := &Scope{Key: o.Key, Selector: spec.GetWorkloadSelector().GetLabels(), Hash: o.Hash}
	for _, listener := range spec.Egress {
		for _, h := range listener.Hosts {
			ns, host, ok := strings.Cut(h, "/")
			if !ok {
				ns, host = "*", h
			}
			s.Egress = append(s.Egress, HostFilter{Namespace: ns, Host: CanonicalHost(host)})
		}
	}
	if p := spec.OutboundTrafficPolicy; p != nil {
		allow := p.Mode == networking.OutboundTrafficPolicy_ALLOW_ANY
		s.AllowAny = &allow
	}
	return s
}

// Sees says whether the scope lets its workloads, in namespace own, see the service.
func (s *Scope) Sees(own string, svc *Service) bool {
	if s == nil || s.Egress == nil {
		return true
	}
	for _, f := range s.Egress {
		ns := f.Namespace
		if ns == "." {
			ns = own
		}
		if (ns == "*" || ns == svc.Namespace) && covers(f.Host, svc.Host) {
			return true
		}
	}
	return false
}

// covers says whether a pattern ("*", "*.suffix", exact) covers a host, which may be a wildcard itself.
func covers(pattern, host string) bool {
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
