package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// What the API server takes of Services and EndpointSlices, and leads nowhere.

var exportsField = strict.Join("metadata.annotations", exportToAnnotation)

// serviceExports warns of what in a Service's annotation is for nobody.
func (r *report) serviceExports() {
	list := exportsOf(&r.of)
	for _, ns := range list {
		switch {
		case ns == "*" || ns == "~":
			if len(list) > 1 {
				r.warn(exportsField, ns, fmt.Sprintf("%q stands beside other values: %s", ns, map[string]string{"*": "the Service is exported to all, whatever else is there", "~": "the Service is exported to those"}[ns]), "write it alone, or remove it")
			}
		case ns != "." && (!isLabel(ns) || ns != strings.ToLower(ns)):
			r.warn(exportsField, ns, "is no namespace, so the Service is exported to nobody by it", `write ".", "*", "~" or names of namespaces, with commas between them`)
		}
	}
}

// exportsOf are the values of a Service's annotation.
func exportsOf(o *config.Object) (out []string) {
	for ns := range strings.SplitSeq(o.Annotations[exportToAnnotation], ",") {
		if ns = strings.TrimSpace(ns); ns != "" {
			out = append(out, ns)
		}
	}
	return out
}

// checkServiceExports warns of namespaces there that do not exist.
func (w *world) checkServiceExports(r *report) {
	for _, ns := range exportsOf(&r.of) {
		if isLabel(ns) && ns == strings.ToLower(ns) {
			w.checkNamespace(r, exportsField, ns)
		}
	}
}

// checkNamedTargets warns of ports whose target has a name that none of the Service's pods gives to a port, where pods are known.
func (w *world) checkNamedTargets(r *report, s *corev1.Service) {
	if len(s.Spec.Selector) == 0 || !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.TargetPort.StrVal != "" }) {
		return
	}
	list := w.labelled(r.of.Namespace).with(s.Spec.Selector)
	if !slices.ContainsFunc(list, func(o *config.Object) bool { return o.Kind == config.KindPod }) {
		return
	}
	for i, p := range s.Spec.Ports {
		name := p.TargetPort.StrVal
		if name == "" || slices.ContainsFunc(list, func(o *config.Object) bool { return hasTarget(o, p.Name, name) }) {
			continue
		}
		names := map[string]bool{}
		for _, o := range list {
			for _, has := range podPortNames(o) {
				names[has] = true
			}
		}
		fix := "name the port in the pods' containers, or write its number"
		if meant := strict.Closest(name, sortedKeys(names)); meant != "" {
			fix = fmt.Sprintf("did you mean %q?", meant)
		}
		r.warn(at("spec.ports", i, "targetPort"), name, fmt.Sprintf("none of the pods that are selected has a container's port of this name, so nothing is sent to port %d now", p.Port), fix)
	}
}

// hasTarget says whether a workload has the port that a Service's leads to by a name.
func hasTarget(o *config.Object, port, target string) bool {
	switch spec := o.Spec.(type) {
	case *corev1.Pod:
		return registry.NamedPort(spec, target) != 0
	case *networking.WorkloadEntry:
		return spec.Ports[port] != 0 || spec.Ports[target] != 0
	}
	return false
}

func podPortNames(o *config.Object) (out []string) {
	if pod, is := o.Spec.(*corev1.Pod); is {
		for _, c := range pod.Spec.Containers {
			for _, p := range c.Ports {
				out = append(out, p.Name)
			}
		}
	}
	return out
}

// keptByCluster is the label's value of EndpointSlices that the cluster makes of the pods that a Service selects.
const keptByCluster = "endpointslice-controller.k8s.io"

// checkSlicePorts warns of ports that somebody wrote by names which are none of the Service's. Those that a controller keeps follow the Service.
func (w *world) checkSlicePorts(r *report, s *discoveryv1.EndpointSlice) {
	of := s.Labels[discoveryv1.LabelServiceName]
	svc := w.specs[host.Name(of+"."+r.of.Namespace+"."+clusterDomain)]
	if svc == nil || svc.Spec.Type == corev1.ServiceTypeExternalName || s.Labels[discoveryv1.LabelManagedBy] == keptByCluster {
		return
	}
	names := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		names[p.Name] = true
	}
	for i, p := range s.Ports {
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if names[name] {
			continue
		}
		fix := "leave the name out"
		if all := slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(n string) bool { return n == "" }); len(all) > 0 {
			fix = "write one of " + strings.Join(all[:min(len(all), portsShown)], ", ")
		}
		r.warn(at("ports", i, "name"), name, fmt.Sprintf("Service %s has no port of this name, so nothing is sent to the endpoints by it", of), fix)
	}
}
