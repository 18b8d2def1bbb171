package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"istio.io/api/annotation"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/mesh"
)

// A WorkloadEntry is an endpoint of what selects it, and of nothing else: what it says that nobody who selects it reads, and that nobody selects it,
// is said of it, in the same words by lint, webhook and status (WorkloadAmong).

// checkWorkload judges a WorkloadEntry among what selects it.
func (w *world) checkWorkload(r *report, e *networking.WorkloadEntry) {
	r.amongSelectors(e, w.selectors(r.of.Namespace), w.anySelectors())
	if !w.podAddresses[r.of.Namespace][e.Address] {
		r.ownOnlyBehind(e, slices.Collect(maps.Values(w.headless[r.of.Namespace])), &w.cfg)
	}
	if e.Address != "" { // without one it is said by itself
		w.noteNetwork(r, "spec.network", e)
	}
}

// WorkloadAmong is what is said of a WorkloadEntry of a cluster. selectors are those of its namespace, headless its headless Services.
func WorkloadAmong(o config.Object, selectors Selectors, headless []*config.Object, cfg *mesh.Config) []Finding {
	r := &report{of: o}
	e := o.Spec.(*networking.WorkloadEntry)
	r.amongSelectors(e, selectors, true)
	r.ownOnlyBehind(e, headless, cfg)
	return r.findings
}

// amongSelectors warns of what nobody reads. known says that there is something that selects workloads, of whatever namespace.
func (r *report) amongSelectors(e *networking.WorkloadEntry, selectors Selectors, known bool) {
	labels := workloadLabels(r.of, e)
	by := selectors.of(labels)
	switch {
	case len(by) > 0:
		r.namedUnderStatic(e, by)
		r.portsNobodyHas(e, by)
	case known && r.of.Annotations[annotation.IoIstioAutoRegistrationGroup.Name] == "": // a machine that joined may be a client alone
		message := fmt.Sprintf("no ServiceEntry and no Service of namespace %s selects these labels, so no host leads to it now", r.of.Namespace)
		if len(labels) == 0 {
			message = "it has no labels, by which ServiceEntries and Services select workloads, so no host leads to it"
		}
		r.warn("spec.labels", shownLabels(labels), message, "mend the labels, or select them by a ServiceEntry of this namespace (spec.workloadSelector)")
	}
}

func shownLabels(labels map[string]string) any {
	if len(labels) == 0 {
		return nil
	}
	var out []string
	for _, k := range sortedKeys(labels) {
		out = append(out, pair(k, labels[k]))
	}
	return strings.Join(out, ", ")
}

// namedUnderStatic warns of a name where addresses are needed.
func (r *report) namedUnderStatic(e *networking.WorkloadEntry, by []*config.Object) {
	if e.Address == "" || isAddress(e.Address) || strings.HasPrefix(e.Address, unixPrefix) {
		return
	}
	if _, err := host.ParseExact(e.Address); err != nil {
		return // said by itself
	}
	for _, o := range by {
		switch spec := o.Spec.(type) {
		case *corev1.Service:
			r.warn("spec.address", e.Address, fmt.Sprintf("%s selects it, and leads to IP addresses only, so nothing is sent to it by that", o.Key), "write an IP address, or let a ServiceEntry with spec.resolution: DNS select it alone")
			return
		case *networking.ServiceEntry:
			if spec.Resolution == networking.ServiceEntry_STATIC {
				r.warn("spec.address", e.Address, fmt.Sprintf("%s selects it, whose resolution STATIC needs IP addresses, so nothing is sent to it by that", o.Key), "write an IP address, or set spec.resolution of the ServiceEntry to DNS")
				return
			}
		}
	}
}

// portsNobodyHas warns of ports by names that nothing which selects the workload has.
func (r *report) portsNobodyHas(e *networking.WorkloadEntry, by []*config.Object) {
	if len(e.Ports) == 0 {
		return
	}
	names := map[string]bool{}
	for _, o := range by {
		for _, name := range portNames(o) {
			names[name] = true
		}
	}
	for _, name := range sortedKeys(e.Ports) {
		if names[name] || !isLabel(name) {
			continue
		}
		who := by[0].Key.String()
		if more := len(by) - 1; more > 0 {
			who = fmt.Sprintf("%s, and %d more,", who, more)
		}
		fix := "name a port of what selects it"
		if all := sortedKeys(names); len(all) > 0 {
			fix = "write one of " + strings.Join(all[:min(len(all), portsShown)], ", ")
		}
		r.warn(strict.Join("spec.ports", name), e.Ports[name], fmt.Sprintf("%s that selects it has no port of the name %q, so this number counts for nothing", who, name), fix)
	}
}

// portNames are the names of ports by which an object's endpoints are found.
func portNames(o *config.Object) (out []string) {
	switch spec := o.Spec.(type) {
	case *networking.ServiceEntry:
		for _, p := range spec.Ports {
			out = append(out, p.GetName())
		}
	case *corev1.Service:
		for _, p := range spec.Spec.Ports {
			if out = append(out, p.Name); p.TargetPort.StrVal != "" {
				out = append(out, p.TargetPort.StrVal)
			}
		}
	}
	return out
}

// checkSomebodySelected warns of a ServiceEntry that selects workloads by labels which none has that is known, where any is known.
func (w *world) checkSomebodySelected(r *report, s *networking.ServiceEntry) {
	labels := s.GetWorkloadSelector().GetLabels()
	if len(labels) == 0 || len(w.podAddresses) == 0 && len(w.workloads[r.of.Namespace]) == 0 {
		return
	}
	if len(w.labelled(r.of.Namespace).with(labels)) == 0 {
		r.selectsNobody(s)
	}
}

// SelectsNobody is what is said of a ServiceEntry whose labels no workload of its namespace has.
func SelectsNobody(entry config.Object) Finding {
	r := &report{of: entry}
	r.selectsNobody(entry.Spec.(*networking.ServiceEntry))
	return r.findings[0]
}

func (r *report) selectsNobody(s *networking.ServiceEntry) {
	so := "nobody is reached by them now" // but where the name leads, or the client goes
	if s.Resolution == networking.ServiceEntry_STATIC {
		so = "nothing is sent to the hosts now"
	}
	r.warn("spec.workloadSelector.labels", shownLabels(s.GetWorkloadSelector().GetLabels()), fmt.Sprintf("no Pod and no WorkloadEntry of namespace %s that is known has these labels, so %s", r.of.Namespace, so),
		"mend the labels, if the workloads are there already; those of other namespaces are not selected")
}

// noteNetwork says how an endpoint is reached whose network nothing else names.
func (w *world) noteNetwork(r *report, field string, e *networking.WorkloadEntry) {
	if e.Network == "" || w.knownNetworks()[e.Network] {
		return
	}
	fix := "label the gateway's Service in the root namespace with topology.istio.io/network, or name the network in the mesh settings (sallyport.networks)"
	if meant := strict.Closest(e.Network, sortedKeys(w.knownNetworks())); meant != "" {
		fix = fmt.Sprintf("did you mean %q?", meant)
	}
	if e.Address == "" {
		r.warn(field, e.Network, "no gateway of this network is known, and there is no address, so nothing is sent to it now", fix)
		return
	}
	r.note(field, e.Network, "no gateway of this network is known, so proxies of all networks connect to the address itself", fix)
}

// checkEndpointNetworks does so of the endpoints that an entry lists.
func (w *world) checkEndpointNetworks(r *report, s *networking.ServiceEntry) {
	for i, e := range s.Endpoints {
		w.noteNetwork(r, at("spec.endpoints", i, "network"), e)
	}
}
