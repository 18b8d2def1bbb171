package registry

import (
	"cmp"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/named"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// Secured is what BackendTLSPolicies say of a Service.
func (s *Snapshot) Secured(ref Ref) gatewayapi.Secured {
	list, _ := s.secured.Get(ref.Host())
	return list
}

// LedFromGateways are the Gateways of the Gateway API whose routes lead to a host, in order.
func (s *Snapshot) LedFromGateways(host string) (out []config.Key) {
	list, _ := s.leading.Get(host)
	for _, v := range list {
		for _, ref := range v.Gateways {
			if key, _, of := gatewayapi.ParseRef(ref); of && !slices.Contains(out, key) {
				out = append(out, key)
			}
		}
	}
	slices.SortFunc(out, config.Key.Compare)
	return out
}

// LedUntouched says whether routes of TLS lead to a host.
func (s *Snapshot) LedUntouched(host string) bool {
	list, _ := s.leading.Get(host)
	return slices.ContainsFunc(list, func(v *VirtualService) bool {
		return slices.ContainsFunc(v.TLS, func(l route.L4) bool {
			return slices.ContainsFunc(l.Destinations, func(d route.L4Destination) bool { return d.Host == host })
		})
	})
}

// LedByDatagrams says whether routes of UDP lead to a host.
func (s *Snapshot) LedByDatagrams(host string) bool {
	list, _ := s.leading.Get(host)
	return slices.ContainsFunc(list, func(v *VirtualService) bool { return v.Key.Kind == config.KindUDPRoute })
}

// SecuredRule is a rule as gateways of a Gateway follow it: what BackendTLSPolicies say stands in for what the rule says of TLS. A
// gateway shows its Gateway's certificate there, if that has one.
func (s *Snapshot) SecuredRule(svc *Service, rule *DestinationRule, shows *BackendClientCertificate) *DestinationRule {
	ref, _ := RefOf(svc.Host)
	if svc.Source.Kind != config.KindService || s.secured.Len() == 0 {
		return rule
	}
	list := s.Secured(ref)
	if len(list) == 0 {
		return rule
	}
	out := cmp.Or(rule, &DestinationRule{Host: svc.Host}).ownPorts()
	for _, port := range svc.Ports {
		if p := list.At(port.Name); p != nil && port.Protocol != UDP {
			out.PortTLS[port.Number] = s.backendTLS(p, shows)
		}
	}
	return out
}

// backendTLS are the settings that a policy makes.
func (s *Snapshot) backendTLS(p *gatewayapi.BackendTLS, shows *BackendClientCertificate) *TLSSettings {
	t := &TLSSettings{Mode: TLSSimple, SNI: p.Name, SANs: p.SANs, By: &p.Key, Revision: p.Revision}
	if len(p.CAs) > 0 {
		t.Trust = Bundle(p.CAs)
	}
	if shows != nil {
		t.Mode, t.Namespace, t.CredentialName = TLSMutual, shows.Ref.Namespace, shows.Ref.Name
	}
	switch {
	case p.Unaccepted.Is():
		t.Refused = p.Unaccepted.Message
	case shows != nil && shows.Problem != "":
		t.Refused = "the Gateway's " + shows.Problem
	}
	return t
}

// BackendClientCertificate is what gateways of a Gateway show to backends that take TLS.
type BackendClientCertificate struct {
	Ref     CredentialRef
	Problem string // why they may not
}

// setBackendTLS takes a BackendTLSPolicy in, or out.
func (b *batch) setBackendTLS(was, is *config.Object) {
	hosts := map[string]Ref{}
	for _, o := range [...]*config.Object{was, is} {
		if o == nil {
			continue
		}
		b.noteNamed(o, o == is)
		for _, t := range o.Spec.(*gatewayv1.BackendTLSPolicySpec).TargetRefs {
			if t.Group != "" || t.Kind != "Service" {
				continue
			}
			ref := Ref{o.Namespace, string(t.Name)}
			hosts[ref.Host()] = ref
			b.index.gatewayAPI.targets.note(ref.Host(), o.Key, o == is)
		}
	}
	for host, ref := range hosts {
		policies := make([]*config.Object, 0, len(b.index.gatewayAPI.targets[host]))
		for key := range b.index.gatewayAPI.targets[host] {
			policies = append(policies, b.objects.Get(key))
		}
		if b.beside[host] = true; len(policies) == 0 {
			b.secured.Delete(host)
			continue
		}
		b.secured.Put(host, gatewayapi.SecuredBy(policies, ref.Name))
	}
}

// noteNamed remembers the Secrets and ConfigMaps that an object names.
func (b *batch) noteNamed(o *config.Object, names bool) {
	for _, key := range named.Objects(o) {
		b.index.gatewayAPI.shown.note(key, o.Key, names)
	}
}

// touchSecured marks the hosts to which gateways show their certificates. Whatever leads there from the same pods does, by whichever Gateway.
func (b *batch) touchSecured() {
	b.secured.Walk(func(host string, _ gatewayapi.Secured) bool { b.beside[host] = true; return true })
}

// turnNamed is about what follows from a Secret or a ConfigMap for those that name it.
func (b *batch) turnNamed(changed config.Key) {
	for key := range b.index.gatewayAPI.shown[changed] {
		b.retold[key] = true
		switch key.Kind {
		case config.KindBackendTLSPolicy:
			for _, t := range b.objects.Get(key).Spec.(*gatewayv1.BackendTLSPolicySpec).TargetRefs {
				b.beside[Ref{key.Namespace, string(t.Name)}.Host()] = true
			}
		case config.KindListenerSet: // of how many its Gateway says
			if parent, of := gatewayapi.SetParent(b.objects.Get(key)); of {
				b.retold[parent] = true
			}
		case config.KindKubeGateway:
			for _, set := range b.next.sets[key] {
				b.retold[set.Key] = true
			}
			if g := b.next.gateways[key]; g != nil && g.Shows != nil {
				b.touchSecured()
			}
		}
	}
}
