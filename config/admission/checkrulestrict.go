package admission

import (
	"fmt"
	"slices"

	"istio.io/api/label"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// checkStrict warns of a rule by which pods are spoken to without the mutual TLS that is all they take.
func (w *world) checkStrict(r *report, d *networking.DestinationRule, n host.Name) {
	if !w.cfg.MutualTLS || !SpeaksOtherTLS(d) {
		return
	}
	for _, s := range w.choosersOf(n) {
		for _, p := range s.ports {
			t := tlsFor(d, p.number)
			if t == nil || t.Mode == networking.ClientTLSSettings_ISTIO_MUTUAL {
				continue
			}
			if by, strict := w.takesOnlyMutual(s.namespace, s.selector, p.target); strict {
				field := "spec.trafficPolicy.tls"
				eachTLS(d, func(of string, _ *networking.ClientTLSSettings, port uint32) {
					if port == p.number {
						field = of
					}
				})
				r.warn(at(field, "mode"), t.Mode, fmt.Sprintf("pods of %s take mutual TLS of the mesh only (%s), and are spoken to without it by this: nothing that is sent to port %d arrives", n, by, p.number),
					"remove tls, since proxies speak mutual TLS by themselves, or write ISTIO_MUTUAL")
				return
			}
		}
	}
}

// chooser is what leads to pods of the mesh that have some labels.
type chooser struct {
	namespace string
	selector  map[string]string
	ports     []selectedPort
}

// selectedPort is a port that clients connect to; target is the pods' own, 0 where it has a name.
type selectedPort struct{ number, target uint32 }

// choosersOf are a Service, and ServiceEntries of the mesh, that have a host and choose its pods by labels.
func (w *world) choosersOf(n host.Name) (out []chooser) {
	if spec := w.specs[n]; spec != nil && len(spec.Spec.Selector) > 0 {
		ref, _ := registry.RefOf(string(n))
		s := chooser{namespace: ref.Namespace, selector: spec.Spec.Selector}
		for _, p := range spec.Spec.Ports {
			target := uint32(p.TargetPort.IntVal)
			if target == 0 && p.TargetPort.StrVal == "" {
				target = uint32(p.Port)
			}
			s.ports = append(s.ports, selectedPort{uint32(p.Port), target})
		}
		out = append(out, s)
	}
	for _, e := range w.hosts[n] {
		if selector := e.spec.GetWorkloadSelector().GetLabels(); len(selector) > 0 && !e.external() {
			s := chooser{namespace: e.object.Namespace, selector: selector}
			for _, p := range e.spec.Ports {
				target := p.TargetPort
				if target == 0 {
					target = p.Number
				}
				s.ports = append(s.ports, selectedPort{p.Number, target})
			}
			out = append(out, s)
		}
	}
	return out
}

// takesOnlyMutual says whether pods with some labels take nothing but mutual TLS at a port of their own, and by which PeerAuthentication: of pods that are known one that
// has a proxy; where none is known all that there may be.
func (w *world) takesOnlyMutual(ns string, labels map[string]string, port uint32) (by config.Key, strict bool) {
	judge := func(labels map[string]string) bool {
		modes := w.peerAuthentications().Modes(ns, labels)
		if port == 0 && len(modes.Ports) > 0 {
			return false // which one it is only pods tell
		}
		mode, of := modes.At(port)
		by = of
		return mode == registry.Strict
	}
	known := false
	for _, x := range w.workloads[ns] {
		if !hasLabels(x.labels, labels) {
			continue
		}
		if known = true; x.labels[label.SecurityTlsMode.Name] == "istio" && judge(x.labels) {
			return by, true
		}
	}
	if known || slices.ContainsFunc(w.authentications[ns], func(o *config.Object) bool {
		chosen := o.Spec.(*security.PeerAuthentication).GetSelector().GetMatchLabels()
		return !hasLabels(labels, chosen) && !contradict(labels, chosen)
	}) {
		return by, false
	}
	return by, judge(labels)
}

// peerAuthentications are what those that are there come to.
func (w *world) peerAuthentications() *registry.Snapshot {
	if w.authenticated == nil {
		var changes []config.Change
		for _, list := range w.authentications {
			for _, o := range list {
				changes = append(changes, config.Change{Key: o.Key, Object: o})
			}
		}
		w.authenticated, _ = registry.New(&w.cfg).Apply(changes)
	}
	return w.authenticated
}
