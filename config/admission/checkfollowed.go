package admission

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// checkFollowed warns of a rule that nobody follows, and says whether somebody may: all that it is for leaves by egress gateways, which follow rules of the namespace that registers the host
// (registry.ExitRule). Of TLS that is asked for by such a rule it is said which ports are closed.
func (w *world) checkFollowed(r *report, d *networking.DestinationRule) bool {
	n := w.fullName(d.Host, r.of.Namespace)
	if host.Matches(n, "a.b."+clusterDomain) || strings.HasSuffix(string(n), "."+clusterDomain) {
		return true
	}
	var first *entry
	for _, h := range w.registeredBy(n) {
		if len(w.hosts[h]) == 0 {
			continue
		}
		if !w.leavesByGateway(h) || slices.ContainsFunc(w.hosts[h], func(e *entry) bool { return w.mayFollow(e, &r.of, d) }) {
			return true
		}
		if first == nil {
			first = w.hosts[h][0]
		}
	}
	if first == nil {
		return true
	}
	ns, fields := first.object.Namespace, fieldsBesideTLS(d)
	if len(fields) == 0 {
		return false
	}
	follows := "of namespace " + ns
	if len(d.GetWorkloadSelector().GetMatchLabels()) > 0 {
		follows += " that are for all workloads, or select its own pods"
	}
	r.warn("spec.host", d.Host, fmt.Sprintf("what it is for leaves by the egress gateway %s, which serves all, and follows rules %s: what this one says (%s) has no effect", w.exitOf(first), follows, strings.Join(fields, ", ")),
		fmt.Sprintf("write the rule into namespace %s, without workloadSelector, or let the entry leave straight from the pod with the annotation %s: %s", ns, GatewayAnnotation, registry.ExitDirect))
	return false
}

// mayFollow says whether the egress gateway of an entry may follow a rule, as far as is known: a waypoint may stand before it, and of rules with a workloadSelector those count that
// select the gateway's pods.
func (w *world) mayFollow(e *entry, o *config.Object, d *networking.DestinationRule) bool {
	ns := e.object.Namespace
	if !registry.RequestedWaypoint(ns, e.object.Labels, w.namespaces[ns].Labels).IsZero() {
		return true
	}
	if o.Namespace != ns && o.Namespace != w.cfg.RootNamespace {
		return false
	}
	labels := d.GetWorkloadSelector().GetMatchLabels()
	if len(labels) == 0 {
		return o.Namespace == ns || w.ruleReaches(d, o.Namespace, ns)
	}
	of, name, _ := strings.Cut(w.exitOf(e), "/")
	spec := w.specs[host.Name(registry.Ref{Namespace: of, Name: name}.Host())]
	return o.Namespace == of && (spec == nil || hasLabels(spec.Spec.Selector, labels))
}

// exitOf is the egress gateway of an entry that leaves by one, "NAMESPACE/NAME".
func (w *world) exitOf(e *entry) string {
	if name := w.gatewayOf(e); name != "" {
		return name
	}
	return w.cfg.DefaultGateway.String()
}

// fieldsBesideTLS names what a rule says, but for TLS that it asks for.
func fieldsBesideTLS(d *networking.DestinationRule) (out []string) {
	policy := d.GetTrafficPolicy()
	policy.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		switch name := f.JSONName(); name {
		case "tls":
			if !originatesTLS(policy.Tls) {
				out = append(out, name)
			}
		case "portLevelSettings":
			if slices.ContainsFunc(policy.PortLevelSettings, func(p *networking.TrafficPolicy_PortTrafficPolicy) bool {
				return p.LoadBalancer != nil || p.ConnectionPool != nil || p.OutlierDetection != nil || p.Tls != nil && !originatesTLS(p.Tls)
			}) {
				out = append(out, name)
			}
		default:
			out = append(out, name)
		}
		return true
	})
	slices.Sort(out)
	if len(d.Subsets) > 0 {
		out = append(out, "subsets")
	}
	return out
}
