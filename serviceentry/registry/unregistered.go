package registry

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
)

// A rule of the root namespace with "unregistered: true" stands for a registration of its hosts, which comes after all that objects register:
// under REGISTRY_ONLY, the workloads of the namespaces that the policy is for find them, and the egress gateway asks who it is
// (docs/adr/0050-what-rules-let-out.md).

// NamespaceUnregistered is the namespace of what rules let out. No namespace can be called so: all others come first.
const NamespaceUnregistered = "unregistered-"

// letsOut says whether an object has such a rule, and is not observed only.
func letsOut(o *config.Object) bool {
	if o == nil {
		return false
	}
	p, ok := o.Spec.(*v1alpha1.EgressPolicy)
	return ok && p.Mode != v1alpha1.Mode_Observe && slices.ContainsFunc(p.Rules, func(r *v1alpha1.Rule) bool { return r.Unregistered })
}

// letOut makes a service of each host that a policy of the root namespace lets out, with the ports of all rules that do.
func (b *batch) letOut(o *config.Object, spec *v1alpha1.EgressPolicy) (out []*Service) {
	if o.Namespace != b.next.Mesh.RootNamespace || !letsOut(o) {
		return nil
	}
	p := egresspolicy.FromSpec(o, spec)
	at := map[string]*Service{}
	for i := range p.Rules {
		r := &p.Rules[i]
		if !r.Unregistered {
			continue
		}
		for _, h := range r.Hosts {
			if h = CanonicalHost(h); h == "*" || host.IsAddress(h) {
				continue // admission refuses it
			}
			if at[h] == nil {
				at[h] = b.letOutTo(h, p)
				out = append(out, at[h])
			}
			at[h].openFor(r)
		}
	}
	return out
}

// letOutTo is a host's service, yet without ports. Who gets to it is the gateway's to say, as far as policies select less than namespaces.
func (b *batch) letOutTo(name string, p *egresspolicy.Policy) *Service {
	s := &Service{
		Host: name, Namespace: NamespaceUnregistered, Source: p.Key, Revision: p.Revision, Created: p.Created, Resolution: DNS,
		Traits: &Traits{External: true, Unregistered: true, Exit: Ref(b.next.Mesh.DefaultGateway), ExportTo: ExportTo{All: p.Namespaces == nil}},
	}
	s.RootExit = !s.Exit.IsZero()
	if n := p.Namespaces; n != nil {
		s.ExportTo.Namespaces = slices.Clone(n.Names)
		for ns, labels := range b.next.namespaces {
			if len(n.Labels) > 0 && selects(n.Labels, labels) {
				s.ExportTo.Namespaces = append(s.ExportTo.Namespaces, ns)
			}
		}
		slices.Sort(s.ExportTo.Namespaces)
		s.ExportTo.Namespaces = slices.Compact(s.ExportTo.Namespaces)
	}
	return s
}

// openFor adds a rule's ports: 80 and 443, where it names none. Of a port that several rules name, the first says what is spoken there.
func (s *Service) openFor(r *egresspolicy.Rule) {
	ports := r.Ports
	if len(ports) == 0 {
		ports = []uint32{80, 443}
	}
	for _, number := range ports {
		if _, has := s.Port(number); has || config.IsOwnPort(number) {
			continue
		}
		spoken := spokenBy(r, number)
		s.Ports = append(s.Ports, Port{Name: strings.ToLower(string(spoken)), Number: number, TargetPort: number, Protocol: spoken})
	}
	slices.SortFunc(s.Ports, func(a, b Port) int { return int(a.Number) - int(b.Number) })
}

// spokenBy is what is spoken at a port: what the rule says, if that is one thing, else HTTP at 80, and TLS.
func spokenBy(r *egresspolicy.Rule, port uint32) Protocol {
	switch {
	case len(r.Protocols) == 1:
		return map[egresspolicy.Protocol]Protocol{egresspolicy.HTTP: HTTP, egresspolicy.TLS: TLS, egresspolicy.TCP: TCP}[r.Protocols[0]]
	case port == 80 || r.ReadsRequests():
		return HTTP
	default:
		return TLS
	}
}

// Closed is, of what a rule lets out, what stands for its being closed to all whom no rule lets out; nil of what is registered.
func (s *Snapshot) Closed(svc *Service) *egresspolicy.Policy {
	if !svc.Unregistered {
		return nil
	}
	return &egresspolicy.Policy{Key: config.Key{Kind: config.KindMeshConfig, Namespace: s.Mesh.RootNamespace, Name: "mesh"}}
}

// LetsOut says whether a rule lets out what nobody registered.
func (s *Snapshot) LetsOut() bool { return s.policies[s.Mesh.RootNamespace].LetsOut() }

// closesUnregistered is a scope that sees everything, under REGISTRY_ONLY.
var closesUnregistered = &SidecarScope{AllowAny: new(bool)}

// LeavingFor is Visible as the forward proxy for a namespace has it, to which outboundTrafficPolicy means nothing: what nobody
// registered is closed.
func (s *Snapshot) LeavingFor(host, ns string) *Service {
	return s.Visible(host, ns, closesUnregistered)
}
