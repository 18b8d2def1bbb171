package resolve

import (
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Authorizer is who AuthorizationPolicies with the action CUSTOM have asked, and where it is: at a host as the namespace registered it that the
// mesh's settings name; where they name none, at a Service, or a host of the root namespace. Whatever the proxy that asks sees is another matter.
type Authorizer struct {
	*mesh.Authorizer
	Far  SidecarHost
	Port registry.Port
}

// AuthorizerOf finds the one that a set of policies has asked, for a proxy that stands somewhere; nil where there is nobody to ask. why says, where
// somebody should be asked and nobody can be, why not: then what the policies mean is closed.
func AuthorizerOf(s *registry.Snapshot, set authz.Set, near registry.ClientLocation, secrets registry.SecretAccess) (a *Authorizer, why string) {
	names := set.Providers()
	if len(names) == 0 {
		return nil, ""
	}
	if len(names) > 1 {
		return nil, "a proxy asks one provider, and policies name several: " + strings.Join(names, ", ")
	}
	said := s.Mesh.Authorizer(names[0])
	if said == nil {
		return nil, "the mesh's extensionProviders have no " + names[0] + " that is envoyExtAuthzGrpc or envoyExtAuthzHttp"
	}
	a = &Authorizer{Authorizer: said}
	if why := a.find(s, near, secrets); why != "" {
		return nil, "the provider " + said.Name + " cannot be asked: " + said.Host + " " + why
	}
	return a, ""
}

// find looks for the provider's host, and says why it is none that can be asked.
func (a *Authorizer) find(s *registry.Snapshot, near registry.ClientLocation, secrets registry.SecretAccess) (why string) {
	ns := a.Namespace
	if ns == "" {
		ns = s.Mesh.RootNamespace
	}
	who := SidecarIn(s, ns, config.Key{}, "", secrets).At(near)
	svc := who.Visible(a.Host)
	if why := a.notMeant(svc, ns); why != "" {
		return why
	}
	port, ok := svc.Port(a.Authorizer.Port)
	switch {
	case svc.Wildcard():
		return "is a pattern"
	case !svc.Exit.IsZero():
		return "leaves the mesh by a gateway, by which nothing is asked: annotate it with " + registry.GatewayAnnotation + ": direct"
	case svc.Resolution == registry.None && !svc.Tabled():
		return "has no addresses of its own"
	case !ok || port.Protocol == registry.UDP:
		return fmt.Sprintf("has no port %d", a.Authorizer.Port)
	}
	a.Far, a.Port = who.Reached(svc), port
	a.Far.Led = nil // it is asked there, and nowhere else
	if c, closed := a.Far.Restrictions.Closed[port.Number]; closed {
		return "is closed: " + c.Why
	}
	return ""
}

// notMeant says why what a namespace sees of the provider's host is not what the mesh's settings mean: whoever else exports it is never asked.
func (a *Authorizer) notMeant(svc *registry.Service, ns string) (why string) {
	switch {
	case svc == nil:
		return "is registered by nobody that namespace " + ns + " sees"
	case svc.Namespace == ns, a.Namespace == "" && svc.Tabled():
		return ""
	case a.Namespace != "":
		return "is not registered by namespace " + ns
	default:
		return "is neither a Service nor registered by namespace " + ns + ": write " + svc.Namespace + "/" + a.Host + " if what namespace " + svc.Namespace + " registers is meant"
	}
}
