package admission

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/mesh"
)

// checkExport warns of hosts that an entry exports although that does not count (sallyport.exports in the mesh settings).
func (w *world) checkExport(r *report, e *entry) {
	for _, h := range e.withheld(w) {
		r.withheld(h.field, strings.Join(h.hosts, ", "), h.why, w.cfg.RootNamespace)
	}
}

// ExportRefused is what is said of an entry's host whose export does not count, and why.
func ExportRefused(entry config.Object, host, field, why, root string) Finding {
	r := &report{of: entry}
	r.withheld(field, host, why, root)
	return r.findings[0]
}

func (r *report) withheld(field, hosts, why, root string) {
	fix := `export it to its own namespace (spec.exportTo: ["."]), `
	if field == "spec.hosts" {
		fix += "or name another host"
	} else {
		fix += "register it in the root namespace " + root + ", or let the mesh settings allow it (sallyport.exports)"
	}
	r.warn(field, hosts, why+", so it counts in namespace "+r.of.Namespace+" only", fix)
}

// withheldHosts are hosts of an entry whose export does not count, for one reason.
type withheldHosts struct {
	field, why string
	hosts      []string
}

func (e *entry) withheld(w *world) (out []withheldHosts) {
	if !e.exportsBeyond() {
		return nil
	}
	for _, n := range e.names {
		field, why := w.withheld(e, n)
		if why == "" {
			continue
		}
		i := slices.IndexFunc(out, func(h withheldHosts) bool { return h.field == field && h.why == why })
		if i < 0 {
			i, out = len(out), append(out, withheldHosts{field: field, why: why})
		}
		out[i].hosts = append(out[i].hosts, string(n))
	}
	return out
}

// withheld says why the export of one host does not count.
func (w *world) withheld(e *entry, n host.Name) (field, why string) {
	gateway := w.cfg.DefaultGateway
	if name := w.gatewayOf(e); name != "" {
		if g, err := mesh.ParseGateway(name); err == nil {
			gateway = g
		}
	}
	return w.cfg.Withheld(e.object.Namespace, e.spec, n, gateway)
}

// exportsBeyond says whether the entry's exportTo reaches another namespace than its own.
func (e *entry) exportsBeyond() bool {
	return slices.ContainsFunc(e.exportTo, func(ns string) bool { return ns != e.object.Namespace && ns != "~" })
}

// checkTables warns of namespaces to which an entry is exported by name, and whose pods without sidecars may not have it: of what one namespace exports so,
// nodes have tables for the first few only (sallyport.exportedTables).
func (w *world) checkTables(r *report, e *entry) {
	if len(w.cfg.NodeAgents) == 0 || e.object.Namespace == w.cfg.RootNamespace || !e.exportsBeyond() {
		return
	}
	all := w.exportedTo(e.object.Namespace)
	beyond := all[min(len(all), w.cfg.ExportedTables):]
	beyond = slices.DeleteFunc(slices.Clone(beyond), func(ns string) bool { return !slices.Contains(e.exportTo, ns) })
	if len(beyond) > 0 {
		r.withoutTables(beyond, w.cfg)
	}
}

// exportedTo are the namespaces that one exports entries to by name, in order.
func (w *world) exportedTo(namespace string) []string {
	if w.exportsTo == nil {
		w.exportsTo = map[string][]string{}
		for _, e := range w.entries {
			from := e.object.Namespace
			for _, ns := range e.exportTo {
				if ns != from && ns != "*" && ns != "~" {
					w.exportsTo[from] = append(w.exportsTo[from], ns)
				}
			}
		}
		for from, list := range w.exportsTo {
			slices.Sort(list)
			w.exportsTo[from] = slices.Compact(list)
		}
	}
	return w.exportsTo[namespace]
}

// WithoutTables is what is said of an object's export by name to namespaces that have no tables at nodes for it.
func WithoutTables(of config.Object, namespaces []string, cfg *mesh.Config) Finding {
	r := &report{of: of}
	r.withoutTables(namespaces, *cfg)
	return r.findings[0]
}

func (r *report) withoutTables(namespaces []string, cfg mesh.Config) {
	r.warn("spec.exportTo", strings.Join(namespaces, ", "),
		fmt.Sprintf("pods without sidecars (ambient) of these namespaces do not have it, unless something of their own gives them tables at nodes: of what namespace %s exports by name the first %d namespaces have it there (sallyport.exportedTables)",
			r.of.Namespace, cfg.ExportedTables),
		`export it to all (spec.exportTo: ["*"]), or register it in the root namespace `+cfg.RootNamespace)
}

// checkImports warns of what a Sidecar asks for by another namespace's name and does not get, since its export does not
// count. A list that asks for everything of everybody is told nothing.
func (w *world) checkImports(r *report, s *networking.Sidecar) {
	for i, l := range s.Egress {
		for j, h := range l.Hosts {
			ns, name, _ := strings.Cut(h, "/")
			pattern, err := host.ParsePattern(name)
			if ns == "*" || ns == "." || ns == "~" || ns == r.of.Namespace || err != nil {
				continue
			}
			for _, e := range w.entries {
				if e.object.Namespace != ns || !e.visibleIn(r.of.Namespace) {
					continue
				}
				if k := slices.IndexFunc(e.names, func(n host.Name) bool { _, why := w.withheld(e, n); return why != "" && host.Overlap(pattern, n) }); k >= 0 {
					_, why := w.withheld(e, e.names[k])
					r.warn(at("spec.egress", i, "hosts")+fmt.Sprintf("[%d]", j), h, fmt.Sprintf("%s at %s does not count here: %s %s", e.object.Key, e.object.Origin, e.names[k], "counts in its own namespace only, since "+why),
						"register the host in this namespace too, or have it registered in the root namespace "+w.cfg.RootNamespace)
					break
				}
			}
		}
	}
}
