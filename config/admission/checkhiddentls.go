package admission

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// checkHiddenTLS warns of a rule that says nothing of TLS for a host for which another does that does not count beside it: one of a wider pattern, or the root namespace's.
func (w *world) checkHiddenTLS(r *report, d *networking.DestinationRule) {
	ns, n := r.of.Namespace, w.fullName(d.Host, r.of.Namespace)
	if d.GetTrafficPolicy().GetTls() != nil || w.isExit(n) {
		return
	}
	wider, spec := w.closestRule(ns, ns, append(parents(n), host.Any), n)
	if wider != nil && !setsTLS(spec) || wider == nil && (ns == w.cfg.RootNamespace || !w.rootAsksTLS) {
		return
	}
	why := "of a namespace's rules that cover a host the one that names it most closely counts, as a whole"
	if wider == nil {
		why = "a namespace's own rules count before those of the root namespace, whichever names a host more closely, and as a whole"
	}
	for _, h := range w.registeredBy(n) {
		hidden, says := wider, spec
		if wider == nil {
			if hidden, says = w.rootRule(ns, h); hidden == nil || h != n && w.closer(ns, h, n) {
				continue
			}
		}
		for _, port := range w.wrappedPorts(h) {
			if tlsFor(d, port) != nil || !w.encrypts(tlsFor(says, port), h) {
				continue
			}
			r.warn("spec.host", d.Host, fmt.Sprintf("%s: this one has no tls, so that what %s (%s) says of it is not done for %s, port %d", why, hidden.Key, says.Host, h, port),
				"repeat trafficPolicy.tls here, or write tls: {mode: DISABLE} to say that it is meant")
			return
		}
	}
}

// widerRule finds the rule that would count for a host in a namespace if the namespace had none for the host itself: of its own, or else of the root namespace; nil for none.
func (w *world) widerRule(ns string, n host.Name) (found *config.Object, spec *networking.DestinationRule) {
	if found, spec = w.closestRule(ns, ns, append(parents(n), host.Any), n); found != nil || ns == w.cfg.RootNamespace {
		return found, spec
	}
	return w.closestRule(w.cfg.RootNamespace, ns, append(parents(n), host.Any), n)
}

// rootRule is that of the root namespace which counts for a host in a namespace without any.
func (w *world) rootRule(ns string, n host.Name) (*config.Object, *networking.DestinationRule) {
	return w.closestRule(w.cfg.RootNamespace, ns, append([]host.Name{n}, append(parents(n), host.Any)...), "")
}

// closer says whether a namespace has a rule of its own for a host which names it more closely than a pattern does.
func (w *world) closer(ns string, n, pattern host.Name) bool {
	for _, name := range append([]host.Name{n}, parents(n)...) {
		if name == pattern {
			return false
		}
		if found, _ := w.closestRule(ns, ns, []host.Name{name}, ""); found != nil {
			return true
		}
	}
	return false
}

// closestRule finds the rule of a namespace that another one follows for the first of some names, but one; nil for none. Those for single workloads are left out.
func (w *world) closestRule(of, ns string, names []host.Name, but host.Name) (found *config.Object, spec *networking.DestinationRule) {
	for _, name := range names {
		if name == but {
			continue
		}
		for _, o := range w.rules[name] {
			rule := o.Spec.(*networking.DestinationRule)
			if o.Namespace != of || len(rule.GetWorkloadSelector().GetMatchLabels()) > 0 || of != ns && !w.ruleReaches(rule, of, ns) {
				continue
			}
			if found == nil || writesFirst(o, rule, found, spec) { // of several the oldest that writes trafficPolicy
				found, spec = o, rule
			}
		}
		if found != nil {
			return found, spec
		}
	}
	return nil, nil
}

func writesFirst(o *config.Object, rule *networking.DestinationRule, than *config.Object, spec *networking.DestinationRule) bool {
	if writes := rule.TrafficPolicy != nil; writes != (spec.TrafficPolicy != nil) {
		return writes
	}
	return o.Created.Before(than.Created) // they are in order of their keys
}

// ruleReaches says whether a rule of one namespace is exported to another.
func (w *world) ruleReaches(d *networking.DestinationRule, from, to string) bool {
	exports := d.ExportTo
	if len(exports) == 0 {
		exports = w.cfg.DefaultDestinationRuleExportTo
	}
	return exportReaches(exports, from, to)
}

// exportReaches says whether what an object of one namespace has as exportTo, with the mesh's default filled in, has another one see it.
func exportReaches(exports []string, from, to string) bool {
	return len(exports) == 0 || slices.Contains(exports, "*") || slices.Contains(exports, to) || from == to && slices.Contains(exports, ".")
}

// registeredBy are the registered hosts that a rule's host is for: itself, or those below a pattern.
func (w *world) registeredBy(n host.Name) (out []host.Name) {
	if !n.IsWildcard() {
		return []host.Name{n}
	}
	for _, x := range w.names().below(n) {
		out = append(out, x.name)
	}
	return append(out, n)
}

// wrappedPorts are the ports of a registered host at which proxies send what they read, in TLS if a rule says so.
func (w *world) wrappedPorts(n host.Name) (out []uint32) {
	for _, e := range w.hosts[n] {
		for _, p := range e.spec.Ports {
			if protocol := strings.ToUpper(p.Protocol); !isTLS(protocol) && protocol != "UDP" {
				out = append(out, p.Number)
			}
		}
	}
	if spec := w.specs[n]; spec != nil {
		for _, p := range spec.Spec.Ports {
			if protocol := registry.KubeProtocol(p); protocol != registry.TLS && protocol != registry.UDP {
				out = append(out, uint32(p.Port))
			}
		}
	}
	return out
}
