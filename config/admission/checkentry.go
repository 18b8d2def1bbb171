package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// checkNamespaces warns of exports to namespaces that do not exist, if the input has any.
func (w *world) checkNamespaces(r *report, field string, exportTo []string) {
	for i, ns := range exportTo {
		w.checkNamespace(r, at(field, i), ns)
	}
}

func (w *world) checkNamespace(r *report, field, ns string) {
	if _, exists := w.namespaces[ns]; len(w.namespaces) == 0 || exists || ns == "." || ns == "*" || ns == "~" {
		return
	}
	fix := "create the namespace, or remove it here"
	if meant := strict.Closest(ns, slices.Collect(maps.Keys(w.namespaces))); meant != "" {
		fix = fmt.Sprintf("did you mean %q?", meant)
	}
	r.warn(field, ns, "there is no such namespace", fix)
}

// checkGatewayService warns of an annotation, on a ServiceEntry or a Namespace, that names a gateway whose Service the
// input does not have.
func (w *world) checkGatewayService(r *report) {
	value := r.of.Annotations[GatewayAnnotation]
	if g, err := mesh.ParseGateway(value); err != nil || w.hasService(g) {
		return
	}
	r.warn(strict.Join("metadata.annotations", GatewayAnnotation), value, "there is no such Service, so external hosts cannot be reached through it", "create the gateway's Service, or name another gateway")
}

// checkShortNames warns of hosts by which workloads call Services of the cluster: these come first, whatever an entry says of the name.
func (w *world) checkShortNames(r *report, s *networking.ServiceEntry) {
	for i, h := range s.Hosts {
		name, ns, qualified := strings.Cut(strings.TrimSuffix(registry.CanonicalHost(h), ".svc"), ".")
		whom := "nobody"
		if !qualified {
			ns, whom = r.of.Namespace, "nobody in namespace "+r.of.Namespace
		}
		if ref := (registry.Ref{Namespace: ns, Name: name}); w.services[host.Name(ref.Host())] {
			r.warn(at("spec.hosts", i), h, fmt.Sprintf("it is short for Service %s, which has the name, so %s is led by this entry", ref, whom), "add to the Service what is missing of it, or write the name that the host has outside of the cluster")
		}
	}
}

func (w *world) hasService(g mesh.Gateway) bool {
	return g.IsDirect() || len(w.services) == 0 || w.services[host.Name(g.Name+"."+g.Namespace+"."+clusterDomain)]
}

// defaultGateway warns once if the mesh's gateway is missing and some entry needs it.
func (w *world) defaultGateway() []Finding {
	if w.hasService(w.cfg.DefaultGateway) {
		return nil
	}
	for _, e := range w.entries {
		if e.external() && len(e.names) > 0 && w.gatewayOf(e) == "" {
			r := &report{of: config.Object{Key: config.Key{Kind: config.KindMeshConfig, Name: "istio"}}}
			r.warn("sallyport.defaultGateway", w.cfg.DefaultGateway.String(), fmt.Sprintf("there is no such Service, so %s and other external hosts cannot be reached", e.names[0]),
				`create the gateway's Service, name another gateway, or write "direct"`)
			return r.findings
		}
	}
	return nil
}

// leavesByGateway says whether everybody who registers a host lets it leave by an egress gateway.
func (w *world) leavesByGateway(n host.Name) bool {
	return len(w.hosts[n]) > 0 && !w.services[n] && !slices.ContainsFunc(w.hosts[n], func(e *entry) bool { return !e.external() || w.leavesDirectly(e) })
}

// gatewayOf returns the annotation that picks the entry's gateway, "" for none.
func (w *world) gatewayOf(e *entry) string {
	if v := e.object.Annotations[GatewayAnnotation]; v != "" {
		return v
	}
	return w.namespaces[e.object.Namespace].Annotations[GatewayAnnotation]
}

// ignoredSettings repeats what the mesh settings have and is not applied.
func (w *world) ignoredSettings() []Finding {
	r := &report{of: config.Object{Key: config.Key{Kind: config.KindMeshConfig, Name: "istio"}}}
	for _, p := range w.cfg.Ignored {
		r.add(Warning, p.Field, strings.Trim(p.Value, `"`), p.Message, p.Fix)
	}
	return r.findings
}

// checkTCPPorts warns of ports at which, by the mesh's settings, proxies do not read what an entry says that is spoken there.
func (w *world) checkTCPPorts(r *report, s *networking.ServiceEntry) {
	for i, p := range s.Ports {
		w.checkUnreadPort(r, at("spec.ports", i, "protocol"), p.Protocol, p.Number, registry.ParseProtocol(p.Protocol))
	}
}

// checkServicePorts is the same for a Service, whose ports say it by their names.
func (w *world) checkServicePorts(r *report, s *corev1.Service) {
	for i, p := range s.Spec.Ports {
		if p.AppProtocol != nil {
			w.checkUnreadPort(r, at("spec.ports", i, "appProtocol"), *p.AppProtocol, uint32(p.Port), registry.KubeProtocol(p))
		} else {
			w.checkUnreadPort(r, at("spec.ports", i, "name"), p.Name, uint32(p.Port), registry.KubeProtocol(p))
		}
	}
}

func (w *world) checkUnreadPort(r *report, field, value string, port uint32, protocol registry.Protocol) {
	if protocol == registry.TCP || protocol == registry.UDP || !slices.Contains(w.cfg.TCPPorts, port) {
		return
	}
	r.warn(field, value, fmt.Sprintf("by the mesh settings (sallyport.tcpPorts) proxies take port %d for TCP: they read no names and no requests there, and go by addresses", port),
		"use another port, or take the port out of sallyport.tcpPorts")
}
