package admission

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// farEnds reports what the registry closes, or leaves out, of what objects ask for: an error, since proxies send nothing
// rather than something else; and, as a warning, which entries lead to more pods than count. It asks the registry itself, of those objects that can have to do with it.
func (w *world) farEnds() []Finding {
	objects, rules := w.aboutFarEnds()
	if len(objects) == 0 {
		return nil
	}
	r := registry.New(&w.cfg)
	var changes []config.Change
	for _, o := range objects {
		changes = append(changes, config.Change{Key: o.Key, Object: o})
	}
	s, _ := r.Apply(changes)
	c := &closings{objects: map[config.Key]*config.Object{}, said: map[string]bool{}}
	for _, o := range objects {
		c.objects[o.Key] = o
	}
	for _, list := range s.Hosts() {
		for _, svc := range list {
			if svc.Source.Kind != config.KindServiceEntry {
				continue
			}
			general := map[closing]bool{}
			for _, place := range placesOf(svc) {
				rule := s.ExitRule(svc)
				if place.Kind == registry.AtSidecar {
					rule = s.Rule(svc, svc.Namespace, "")
				}
				c.add(svc, s.UpstreamRestrictions(svc, rule, place), Error, "", general)
			}
			for _, key := range rules { // as the workloads see it that a rule is for
				place := registry.Connector{Kind: registry.AtSidecar, Namespace: key.Namespace, Secrets: registry.SecretsUnseen}
				rule := s.Rule(svc, key.Namespace, registry.SelectorKey(key.Namespace+"/"+key.Name))
				if rule == nil || rule.Key != key || mayBeTheGateways(s, svc, rule) {
					continue
				}
				severity, whom := Error, " from namespace "+key.Namespace
				if rule.Selector != nil {
					whom = " from the workloads that are selected"
				}
				if key.Namespace == w.cfg.RootNamespace { // where it closes for few, and is written for others
					severity = Warning
				}
				c.add(svc, s.UpstreamRestrictions(svc, rule, place), severity, whom, general)
			}
		}
	}
	for _, e := range w.entries {
		if s.Beyond(e.object.Key) {
			c.findings = append(c.findings, TooManyNamespaces(e.object))
		}
	}
	return c.findings
}

// mayBeTheGateways says of a rule with a workloadSelector, of the namespace of a host's egress gateway, whether it cannot be known that the gateway follows another one:
// its Service is not there, which tells its pods' labels.
func mayBeTheGateways(s *registry.Snapshot, svc *registry.Service, rule *registry.DestinationRule) bool {
	_, known := s.KubeService(svc.Exit)
	follows := rule.Key.Namespace == svc.Namespace || rule.Key.Namespace == s.Mesh.RootNamespace
	return rule.Selector != nil && !svc.Exit.IsZero() && svc.Exit.Namespace == rule.Key.Namespace && follows && !known
}

// placesOf are those from which a service is reached.
func placesOf(svc *registry.Service) []registry.Connector {
	if svc.Exit.IsZero() {
		return []registry.Connector{{Kind: registry.AtSidecar, Namespace: svc.Namespace, Secrets: registry.SecretsUnseen}}
	}
	out := []registry.Connector{{Kind: registry.AtGateway, Namespace: svc.Exit.Namespace, Secrets: registry.SecretsUnseen}}
	if long(svc.Host) {
		out = append(out, registry.Connector{Kind: registry.AtSidecar, Namespace: svc.Namespace, Secrets: registry.SecretsUnseen})
	}
	return out
}

// aboutFarEnds picks the objects that matter: rules about TLS, entries with written endpoints or with such a rule, and
// what says by which gateway these leave. It names the rules.
func (w *world) aboutFarEnds() (objects []*config.Object, rules []config.Key) {
	covered, gateways := map[host.Name]bool{}, map[string]bool{w.cfg.DefaultGateway.Namespace: true, w.cfg.RootNamespace: true}
	for i := range w.objects {
		o := &w.objects[i]
		if rule, ok := o.Spec.(*networking.DestinationRule); ok && setsTLS(rule) {
			objects, rules = append(objects, o), append(rules, o.Key)
			covered[w.fullName(rule.Host, o.Namespace)] = true
			if rule.WorkloadSelector != nil {
				gateways[o.Namespace] = true
			}
		}
	}
	entries := 0
	for i := range w.objects {
		o := &w.objects[i]
		switch spec := o.Spec.(type) {
		case *networking.ServiceEntry:
			if len(spec.Endpoints) > 0 || slices.ContainsFunc(spec.Hosts, long) || w.anyCovered(spec.Hosts, covered) {
				objects = append(objects, o)
				entries++
			}
		case *corev1.Namespace, *corev1.Secret:
			objects = append(objects, o)
		case *networking.DestinationRule: // that says nothing of TLS, in place of one that does
			if n := w.fullName(spec.Host, o.Namespace); !setsTLS(spec) && (n.IsWildcard() || w.anyCovered([]string{string(n)}, covered)) {
				objects = append(objects, o)
			}
		case *corev1.Service:
			if gateways[o.Namespace] {
				objects = append(objects, o)
			}
		}
	}
	if entries == 0 {
		return nil, nil
	}
	return objects, rules
}

// long says whether a host may be too long for the way to an egress gateway.
func long(h string) bool {
	_, is := registry.TunnelNameTooLong(h, 65535, strings.Repeat("n", 63), true)
	return is
}

func setsTLS(rule *networking.DestinationRule) bool {
	if rule.GetTrafficPolicy().GetTls() != nil {
		return true
	}
	for _, p := range rule.GetTrafficPolicy().GetPortLevelSettings() {
		if p.GetTls() != nil {
			return true
		}
	}
	return false
}

func (w *world) anyCovered(hosts []string, covered map[host.Name]bool) bool {
	for _, h := range hosts {
		n, err := host.Parse(h)
		if err != nil {
			continue
		}
		if covered[n] {
			return true
		}
		for pattern := range covered {
			if pattern.IsWildcard() && host.Matches(pattern, n) {
				return true
			}
		}
	}
	return false
}

// closing is one port that an object closes, and why.
type closing struct {
	port uint32
	by   config.Key
	why  string
}

// closings gathers findings, each once.
type closings struct {
	objects  map[config.Key]*config.Object
	said     map[string]bool
	findings []Finding
}

// add says what is closed: to whom else is said by whom, "" for everybody. What is closed for everybody is noted in general, and not said once more.
func (c *closings) add(svc *registry.Service, f registry.UpstreamRestrictions, severity Severity, whom string, general map[closing]bool) {
	for _, refused := range f.Refused {
		c.say(svc.Source, Error, "endpoints", refused.Address, refused.Why+", and is not connected to", refused.Fix)
	}
	if len(f.Refused) > 0 {
		return
	}
	type cause struct {
		by       config.Key
		why, fix string
	}
	ports := map[cause][]uint32{}
	var causes []cause
	for _, port := range svc.Ports {
		closed, ok := f.Closed[port.Number]
		at := closing{port.Number, closed.By, closed.Why}
		if !ok || general[at] {
			continue
		}
		general[at] = whom == ""
		of := cause{closed.By, closed.Why, closed.Fix}
		if ports[of] == nil {
			causes = append(causes, of)
		}
		ports[of] = append(ports[of], port.Number)
	}
	for _, of := range causes {
		to, closed := svc.Host, ports[of]
		if len(closed) < len(svc.Ports) {
			to = portsNamed(closed) + " of " + svc.Host
		}
		field, why, _ := strings.Cut(of.why, ": ")
		c.say(of.by, severity, field, "", why+", so nothing is sent to "+to+whom, of.fix)
	}
}

func (c *closings) say(by config.Key, severity Severity, field, value, message, fix string) {
	o := c.objects[by]
	if o == nil {
		return
	}
	r := &report{of: *o}
	r.add(severity, "spec."+field, value, message, fix)
	if text := r.findings[0].String(); !c.said[text] {
		c.said[text] = true
		c.findings = append(c.findings, r.findings...)
	}
}

// TooManyNamespaces is what is said of a ServiceEntry of the mesh that leads to pods of its namespace, and does not count there, since the namespace's lead to too many.
func TooManyNamespaces(entry config.Object) Finding {
	r := &report{of: entry}
	r.warn("spec.endpoints", nil, fmt.Sprintf("the ServiceEntries of namespace %s lead to more than %d ports of endpoints, and this one goes beyond: what it says of ports is not applied to what comes to pods there", entry.Namespace, registry.MostLeads),
		"name the ports in a Service that selects the pods, or in a Sidecar's ingress; or remove endpoints")
	return r.findings[0]
}
