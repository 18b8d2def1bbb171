package controlplane

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/serviceentry"
	"github.com/sallyport/sallyport/serviceentry/admission"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/source/kube/condition"
	"github.com/sallyport/sallyport/serviceentry/source/kube/status"
)

// details are what became of the ServiceEntries that a batch brought, and of those whose hosts it touched.
func (p *plane) details(s *registry.Snapshot, changes []serviceentry.Change, changed registry.Changed) map[serviceentry.Key]status.Details {
	keys := map[serviceentry.Key]bool{}
	for _, c := range changes {
		keys[c.Key] = c.Object != nil
	}
	for _, host := range changed.Hosts {
		for _, svc := range s.Services(host) {
			keys[svc.Source] = true
		}
	}
	out := map[serviceentry.Key]status.Details{}
	for key, stands := range keys {
		if !stands || key.Kind != serviceentry.KindServiceEntry {
			continue
		}
		if o := p.known.get(key); o != nil {
			out[key] = detailsOf(s, o)
		}
	}
	return out
}

func detailsOf(s *registry.Snapshot, o *serviceentry.Object) status.Details {
	var d status.Details
	for _, svc := range servicesOf(s, o) {
		if w := svc.Withheld; w.Why != "" {
			d.Warnings = append(d.Warnings, admission.Withheld(*o, svc.Host, w.Field, w.Why, s.Mesh.RootNamespace))
		}
		switch {
		case !svc.Exit.IsZero():
			d.Gateway = svc.Exit.String()
		case svc.External:
			d.Gateway = registry.ExitDirect
		}
		if svc.VIP4.IsValid() {
			d.Addresses = append(d.Addresses, condition.Address{Value: svc.VIP4.String(), Host: svc.Host}, condition.Address{Value: svc.VIP6.String(), Host: svc.Host})
		}
	}
	return d
}

// servicesOf are the registrations that an entry made, in the order of its hosts.
func servicesOf(s *registry.Snapshot, o *serviceentry.Object) (out []*registry.Service) {
	for _, host := range o.Spec.(*networking.ServiceEntry).Hosts {
		for _, svc := range s.Services(registry.CanonicalHost(host)) {
			if svc.Source == o.Key {
				out = append(out, svc)
			}
		}
	}
	return out
}
