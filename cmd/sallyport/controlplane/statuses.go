package controlplane

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/kube/condition"
	"github.com/sallyport/sallyport/config/source/kube/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// details are what became of the policies, routes, ServiceEntries, DestinationRules and objects of the Gateway API that a batch brought, and of those whose
// hosts it touched.
func (p *plane) details(s *registry.Snapshot, changes []config.Change, changed registry.Changed) map[config.Key]status.Details {
	keys := map[config.Key]bool{}
	for _, c := range changes {
		if keys[c.Key] = c.Object != nil; c.Key.Kind == config.KindEgressPolicy {
			p.forgetEdition(c)
		}
	}
	for _, host := range changed.Hosts {
		for _, svc := range s.Services(host) {
			keys[svc.Source] = true
			if rule := ruleOf(s, svc); rule != nil {
				keys[rule.Key] = true
			}
		}
	}
	for _, key := range changed.GatewayAPI {
		keys[key] = true
	}
	entries, turned := p.known.chosenAgain()
	for _, key := range slices.Concat(entries, p.workloadsJudged(changes, turned, changed.Mesh)) {
		keys[key] = true
	}
	out, among := map[config.Key]status.Details{}, amongWorkloads{p.known, map[string]selectingThere{}}
	for key, stands := range keys {
		o := p.known.get(key)
		switch {
		case !stands || o == nil:
		case slices.Contains(admission.Judged, key.Kind):
			out[key] = p.judgedDetails(s, o)
		case key.Kind == config.KindServiceEntry:
			out[key] = p.entryDetails(s, o)
		case key.Kind == config.KindWorkloadEntry:
			out[key] = status.Details{Warnings: among.judge(o, s)}
		default:
			if told := p.standard(s, key); told != nil {
				out[key] = status.Details{Standard: told}
			}
		}
	}
	return out
}

// workloadsJudged are the WorkloadEntries of which something else may be said since a Service of their namespace, a ServiceEntry of it that selects workloads (turned), or the
// mesh's settings changed.
func (p *plane) workloadsJudged(changes []config.Change, turned map[string]bool, mesh bool) (out []config.Key) {
	namespaces := turned
	if mesh {
		namespaces = map[string]bool{"": true} // all of them
	} else {
		for _, c := range changes {
			if c.Key.Kind == config.KindService {
				namespaces[c.Key.Namespace] = true
			}
		}
	}
	for ns := range namespaces {
		for _, o := range p.known.of(config.KindWorkloadEntry, ns) {
			out = append(out, o.Key)
		}
	}
	return out
}

// amongWorkloads is what selects the workloads of namespaces, looked for once each.
type amongWorkloads struct {
	known *inventory
	of    map[string]selectingThere
}

type selectingThere struct {
	selectors admission.Selectors
	headless  []*config.Object
}

// judge is what is said of a WorkloadEntry among them.
func (a amongWorkloads) judge(o *config.Object, s *registry.Snapshot) []admission.Finding {
	there, is := a.of[o.Namespace]
	if !is {
		services := a.known.of(config.KindService, o.Namespace)
		there.selectors = admission.NewSelectors(slices.Concat(services, a.known.of(config.KindServiceEntry, o.Namespace))...)
		there.headless = slices.DeleteFunc(services, func(o *config.Object) bool { return !admission.IsHeadless(o) })
		a.of[o.Namespace] = there
	}
	return admission.WorkloadAmong(*o, there.selectors, there.headless, s.Mesh)
}

// entryDetails are what became of a ServiceEntry.
func (p *plane) entryDetails(s *registry.Snapshot, o *config.Object) status.Details {
	d := detailsOf(s, o)
	anybody := slices.ContainsFunc(servicesOf(s, o), func(svc *registry.Service) bool { return len(svc.Endpoints) > 0 })
	if len(o.Spec.(*networking.ServiceEntry).GetWorkloadSelector().GetLabels()) > 0 && !anybody && p.known.choosesNobody(o) {
		d.Warnings = append(d.Warnings, admission.SelectsNobody(*o))
	}
	return d
}

func detailsOf(s *registry.Snapshot, o *config.Object) status.Details {
	var d status.Details
	if s.Beyond(o.Key) {
		d.Warnings = append(d.Warnings, admission.TooManyNamespaces(*o))
	}
	if without := s.WithoutTables(o.Namespace, o.Spec.(*networking.ServiceEntry).ExportTo); len(without) > 0 && len(s.Mesh.NodeAgents) > 0 {
		d.Warnings = append(d.Warnings, admission.WithoutTables(*o, without, s.Mesh))
	}
	for _, svc := range servicesOf(s, o) {
		if w := svc.Withheld; w != nil {
			d.Warnings = append(d.Warnings, admission.ExportRefused(*o, svc.Host, w.Field, w.Why, s.Mesh.RootNamespace))
		}
		switch {
		case !svc.Exit.IsZero():
			d.Gateway = svc.Exit.String()
		case svc.External:
			d.Gateway = registry.ExitDirect
		}
		d.Warnings = append(d.Warnings, closings(s, svc, nil)...)
		if rule := s.Rule(svc, svc.Namespace, ""); rule != nil {
			if rule.Uncounted > 0 {
				d.Warnings = append(d.Warnings, admission.TooManySubsets(*o, rule.Key, svc.Host, rule.Uncounted))
			}
			if rule.Crowded != "" && len(d.Warnings) < maxClosings {
				d.Warnings = append(d.Warnings, admission.CrowdedSubsets(*o, rule.Key, svc.Host, rule.Crowded))
			}
		}
		if by, why, crowded := s.CrowdedBy(svc); crowded && len(d.Warnings) < maxClosings {
			d.Warnings = append(d.Warnings, admission.TooCrowded(*o, by, svc.Host, why))
		}
		if svc := s.In(svc, svc.Namespace); svc.MadeUp != 0 {
			d.Addresses = append(d.Addresses, condition.Address{Value: svc.VIP4().String(), Host: svc.Host}, condition.Address{Value: svc.VIP6().String(), Host: svc.Host})
		}
	}
	return d
}

// servicesOf are the registrations that an entry made, in the order of its hosts.
func servicesOf(s *registry.Snapshot, o *config.Object) (out []*registry.Service) {
	for _, host := range o.Spec.(*networking.ServiceEntry).Hosts {
		for _, svc := range s.Services(registry.CanonicalHost(host)) {
			if svc.Source == o.Key {
				out = append(out, svc)
			}
		}
	}
	return out
}

// ruleOf is the rule that counts where a service's connections end: at its gateway, or in its namespace's pods.
func ruleOf(s *registry.Snapshot, svc *registry.Service) *registry.DestinationRule {
	if svc.Exit.IsZero() {
		return s.Rule(svc, svc.Namespace, "")
	}
	return s.ExitRule(svc)
}

// closings are what is closed of a service's ports, or left out of its endpoints: by one object, or by any.
func closings(s *registry.Snapshot, svc *registry.Service, by *config.Key) []admission.Finding {
	place := registry.Connector{Kind: registry.AtGateway, Namespace: svc.Exit.Namespace}
	if svc.Exit.IsZero() {
		place = registry.Connector{Kind: registry.AtSidecar, Namespace: svc.Namespace}
	}
	far := s.UpstreamRestrictions(svc, ruleOf(s, svc), place)
	var out []admission.Finding
	for _, port := range svc.Ports {
		if c, closed := far.Closed[port.Number]; closed && (by == nil || c.By == *by) {
			out = append(out, admission.Finding{
				Severity: admission.Warning, Key: c.By, Message: fmt.Sprintf("nothing is sent to %s on port %d: %s", svc.Host, port.Number, c.Why), Fix: c.Fix,
			})
		}
	}
	if by == nil && len(far.Closed) == 0 {
		for _, r := range far.Refused {
			out = append(out, admission.Finding{Severity: admission.Warning, Key: svc.Source, Field: "spec.endpoints", Value: r.Address, Message: r.Why, Fix: r.Fix})
		}
	}
	return out
}

// maxClosings bounds what a rule's status lists: one of a wildcard may be for many hosts.
const maxClosings = 10

// closedBy are the hosts that a rule closes.
func closedBy(s *registry.Snapshot, key config.Key, rule *networking.DestinationRule) []admission.Finding {
	host := registry.CanonicalHost(rule.Host)
	if !strings.HasPrefix(host, "*") {
		return closedAt(s, s.Services(host), key)
	}
	var out []admission.Finding
	for name, list := range s.Hosts() {
		if strings.HasSuffix(name, host[1:]) {
			out = append(out, closedAt(s, list, key)...)
		}
		if len(out) >= maxClosings {
			break
		}
	}
	return out
}

func closedAt(s *registry.Snapshot, list []*registry.Service, key config.Key) (out []admission.Finding) {
	for _, svc := range list {
		out = append(out, closings(s, svc, &key)...)
	}
	return out
}
