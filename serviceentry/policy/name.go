package policy

import (
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/wire"
)

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
