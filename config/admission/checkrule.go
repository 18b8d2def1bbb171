package admission

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// checkRuleHost warns of a rule for a host that nobody registers.
func (w *world) checkRuleHost(r *report, d *networking.DestinationRule) {
	n := w.fullName(d.Host, r.of.Namespace)
	inCluster := strings.HasSuffix(string(n), "."+clusterDomain)
	if pattern := w.onlyPattern(d.Host, r.of.Namespace); pattern != "" {
		r.warn("spec.host", d.Host, fmt.Sprintf("only the pattern %s covers it, and rules are for what is registered itself, so it has no effect", pattern),
			fmt.Sprintf("write %q, or register the name with a ServiceEntry", pattern))
		return
	}
	if of := w.anotherName(n); of != "" {
		if !slices.Equal(fieldsBesideTLS(d), []string{"tls"}) { // what has mode DISABLE asks for nothing
			r.warn("spec.host", d.Host, alias(of)+"so the rule has no effect", "write "+string(of))
		}
		return
	}
	if w.registered(n) || (inCluster && len(w.services) == 0) {
		return
	}
	fix := "register the host with a ServiceEntry, or mend spec.host"
	if string(n) != d.Host {
		fix += fmt.Sprintf("; %s is what was looked for", n)
	}
	if meant := w.closestHost(n); meant != "" {
		fix = fmt.Sprintf("did you mean %q?", meant)
	}
	r.warn("spec.host", d.Host, "no ServiceEntry and no Service has this host, so the rule has no effect", fix)
}

// checkRuleSubsets warns of subsets that do not count, since they come to too much with what an entry registers.
func (w *world) checkRuleSubsets(r *report, d *networking.DestinationRule) {
	if len(d.Subsets) == 0 {
		return
	}
	n := w.fullName(d.Host, r.of.Namespace)
	entries := w.entries
	if !n.IsWildcard() {
		entries = w.hosts[n]
	}
	for _, e := range entries {
		at, tooMany := registry.TooManySubsets(len(d.Subsets), len(e.spec.Hosts), len(e.spec.Ports), len(e.spec.Endpoints))
		if !tooMany {
			continue
		}
		for _, name := range e.names {
			if (name == n || n.IsWildcard() && host.Matches(n, name)) && !w.leavesByGateway(name) {
				r.findings = append(r.findings, tooManySubsets(r.of, e.object.Key, string(name), at))
				return
			}
		}
	}
}

// TooManySubsets is what is said of an entry for one of whose hosts the subsets of a DestinationRule do not count.
func TooManySubsets(entry config.Object, rule config.Key, host string, comesTo int) Finding {
	r := &report{of: entry}
	r.warn("spec.hosts", host, fmt.Sprintf("the subsets of %s come to %d clusters and endpoints with all that this ServiceEntry registers, so that none counts, and nothing that leads to one is sent", rule, comesTo), registry.FewerSubsets)
	return r.findings[0]
}

func tooManySubsets(rule config.Object, entry config.Key, host string, comesTo int) Finding {
	r := &report{of: rule}
	r.warn("spec.subsets", len(rule.Spec.(*networking.DestinationRule).Subsets), fmt.Sprintf("for %s they come to %d clusters and endpoints with all that %s registers, so that none counts there, and nothing that leads to one is sent", host, comesTo, entry), registry.FewerSubsets)
	return r.findings[0]
}

// closestHost looks for what n was probably meant to be. It gives up on large meshes, where it would take long.
func (w *world) closestHost(n host.Name) string {
	const many = 20_000
	if len(w.hosts)+len(w.services) > many {
		return ""
	}
	// Host names are long and alike: one slip for each six letters is a slip, more is another host.
	var names []string
	add := func(h host.Name) {
		if slips := len(h) - len(n); max(slips, -slips)*6 <= len(n) {
			names = append(names, string(h))
		}
	}
	for h := range w.hosts {
		add(h)
	}
	for h := range w.services {
		add(h)
	}
	if meant := strict.Closest(string(n), names); meant != "" && strict.Distance(string(n), meant)*6 <= len(n) {
		return meant
	}
	return ""
}

// checkGateways warns of gateways that do not exist, if the input has any.
func (w *world) checkGateways(r *report, v *networking.VirtualService) {
	if len(w.gateways) == 0 {
		return
	}
	for i, g := range v.Gateways {
		name := route.Gateways([]string{g}, r.of.Namespace)[0]
		if name == route.Mesh || w.gateways[name] != nil {
			continue
		}
		fix := "create the Gateway, or mend the name"
		if meant := strict.Closest(name, sortedKeys(w.gateways)); meant != "" {
			fix = fmt.Sprintf("did you mean %q?", meant)
		}
		r.warn(at("spec.gateways", i), g, "there is no such Gateway", fix)
	}
}

// checkSubsets warns of destinations whose subset no DestinationRule defines: they answer 503.
func (w *world) checkSubsets(r *report, v *networking.VirtualService) {
	inMesh := slices.Contains(route.Gateways(v.Gateways, r.of.Namespace), route.Mesh)
	for _, x := range portedRoutes(v) {
		for _, d := range x.destinations {
			w.checkSubset(r, d, inMesh)
		}
	}
}

func (w *world) checkSubset(r *report, d portedDestination, inMesh bool) {
	if d.to.GetSubset() == "" {
		return
	}
	n := w.fullName(d.to.Host, r.of.Namespace)
	if inMesh && w.leavesByGateway(n) {
		r.warn(at(d.field, "subset"), d.to.Subset, fmt.Sprintf("%s leaves by an egress gateway, which goes to all of its endpoints, so %s", n, d.orNothing("nothing of what is led there is sent")),
			fmt.Sprintf("remove the subset, or let the host leave straight from the pods with the annotation %s: direct", GatewayAnnotation))
		return
	}
	for rule := range w.rulesFor(n) {
		if slices.ContainsFunc(rule.Subsets, func(s *networking.Subset) bool { return s.Name == d.to.Subset }) {
			return
		}
	}
	r.warn(at(d.field, "subset"), d.to.Subset, fmt.Sprintf("no DestinationRule of host %s has this subset, so %s", n, d.orNothing("requests are answered with 503")), "add the subset to the host's DestinationRule, or remove it here")
}

// checkHidden warns once for each Sidecar that takes registered external hosts out of its workloads' sight.
func (w *world) checkHidden(r *report, s *networking.Sidecar) {
	if len(s.Egress) == 0 {
		return
	}
	const shown = 3
	var hidden []string
	count := 0
	for _, e := range w.entries {
		if !e.external() || !e.visibleIn(r.of.Namespace) {
			continue
		}
		for _, n := range e.names {
			if w.imported(s, r.of.Namespace, e, n) {
				continue
			}
			if count++; count <= shown {
				hidden = append(hidden, string(n))
			}
		}
	}
	if count == 0 {
		return
	}
	list := strings.Join(hidden, ", ")
	if count > shown {
		list += fmt.Sprintf(" and %d more", count-shown)
	}
	r.warn("spec.egress", nil, "hides registered hosts from the workloads it is for: "+list, `add them to the hosts of a listener, as in "*/`+hidden[0]+`", if they are needed`)
}

// imported says whether one of the Sidecar's egress hosts covers the entry's host n.
func (w *world) imported(s *networking.Sidecar, namespace string, e *entry, n host.Name) bool {
	return slices.ContainsFunc(s.Egress, func(l *networking.IstioEgressListener) bool {
		caught := l.Bind == "" || l.Bind == "0.0.0.0" || l.Bind == "::"
		return caught && l.CaptureMode != networking.CaptureMode_NONE && listed(l.Hosts, namespace, e, n)
	})
}

// listed says whether a listener's hosts cover the entry's, and none of those that begin with "~" takes it out again.
func listed(hosts []string, namespace string, e *entry, n host.Name) bool {
	in := false
	for _, h := range hosts {
		ns, name, _ := strings.Cut(h, "/")
		ns, except := strings.CutPrefix(ns, "~")
		switch ns {
		case ".":
			ns = namespace
		case "":
			ns = "*"
		}
		p, err := host.ParsePattern(name)
		if err != nil || ns != "*" && ns != e.object.Namespace {
			continue
		}
		if except && host.Matches(p, n) {
			return false
		}
		in = in || !except && host.Overlap(p, n)
	}
	return in
}
