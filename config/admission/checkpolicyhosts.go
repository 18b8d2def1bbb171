package admission

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/host"
)

// checkPolicyHosts warns of hosts of rules that are not what they seem: inside the mesh, registered by nobody, or more than what
// is registered.
func (w *world) checkPolicyHosts(r *report, p *policy) {
	suggestions := 0
	for i, rule := range p.spec.Rules {
		field := at("spec.rules", i, "hosts")
		if p.matchers[i].any() && rule.Action == v1alpha1.Action_Allow {
			if rule.Unregistered {
				continue // it is refused
			}
			r.warn(field, strings.Join(rule.Hosts, ", "), "the rule allows every host that anybody registers", "name the hosts that are meant, or a suffix as in \"*.example.com\"")
			continue
		}
		for j, h := range rule.Hosts {
			n, place := p.matchers[i].names[j], at(field, j)
			covering, below := w.registrations(p, n)
			of := w.anotherName(n)
			switch {
			case of != "" && !w.ours(of, nil):
				r.warn(place, h, alias(of)+"and rules are for hosts by the names that they are registered with", "write "+string(of))
			case w.ours(n, covering):
				r.warn(place, h, "the host is inside the mesh, and policies are about what leaves it", "remove it; an AuthorizationPolicy says who may call a service of the mesh")
			case rule.Action != v1alpha1.Action_Allow:
			case n.IsWildcard() && w.anybodys(r, place, n):
			case len(covering) > 0 || isIP(n):
			case len(below) > 0:
				r.warn(place, h, fmt.Sprintf("allows more than is registered: beside %s all hosts below %s, as soon as anybody registers them", listed3(below), n.Suffix()[1:]), "name the hosts that are meant")
			case !rule.Unregistered:
				w.unregisteredHost(r, place, h, n, &suggestions)
			}
		}
	}
}

func isIP(n host.Name) bool {
	_, err := netip.ParseAddr(string(n))
	return err == nil
}

// registrations are the entries that a policy's workloads can see: those that have all of a host of a rule, and the names below it.
func (w *world) registrations(p *policy, n host.Name) (covering []*entry, below []host.Name) {
	sees := func(e *entry) bool {
		return p.object.Namespace == w.cfg.RootNamespace || e.visibleIn(p.object.Namespace)
	}
	for _, name := range append([]host.Name{n}, parents(n)...) {
		for _, e := range w.hosts[name] {
			if sees(e) {
				covering = append(covering, e)
			}
		}
	}
	if !n.IsWildcard() {
		return covering, nil
	}
	for _, x := range w.names().below(n) {
		if slices.ContainsFunc(w.hosts[x.name], func(e *entry) bool { return e.external() && sees(e) }) {
			below = append(below, x.name)
		}
	}
	return covering, below
}

// names are those of all entries.
func (w *world) names() hostIndex {
	if w.index == nil {
		w.index = newHostIndex(slices.Collect(maps.Keys(w.hosts)))
	}
	return w.index
}

// ours says whether a host is a Service's, or of entries inside the mesh only.
func (w *world) ours(n host.Name, covering []*entry) bool {
	return w.services[n] || strings.HasSuffix(string(n), "."+clusterDomain) || len(covering) > 0 && !slices.ContainsFunc(covering, (*entry).external)
}

// listed3 names three hosts at most.
func listed3(names []host.Name) string {
	var shown []string
	for _, n := range names[:min(3, len(names))] {
		shown = append(shown, string(n))
	}
	if more := len(names) - len(shown); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), more)
	}
	return strings.Join(shown, ", ")
}

// maxSuggestions bounds for how many hosts of a policy a name is looked for that was meant.
const maxSuggestions = 8

func (w *world) unregisteredHost(r *report, field, value string, n host.Name, suggestions *int) {
	fix := "register it with a ServiceEntry"
	if *suggestions++; w.hosts[n] != nil {
		fix = "register it in this namespace too, or have it exported to it"
	} else if *suggestions <= maxSuggestions {
		if meant := w.closestHost(n); meant != "" {
			fix = fmt.Sprintf("did you mean %q?", meant)
		}
	}
	so := "so it stays closed whatever the rule says"
	if w.cfg.OutboundAllowAny {
		so = "so it is reached without the egress gateway, as all that nobody registered (ALLOW_ANY)"
	}
	r.warn(field, value, "no ServiceEntry that the workloads see has this host, "+so, fix)
}

// hostingNames are labels below which companies let everybody have names, where the company's own name is no public suffix.
var hostingNames = []string{"s3", "blob", "blob.core"}

// anybodys warns of a wildcard below which anybody can get a name.
func (w *world) anybodys(r *report, field string, n host.Name) bool {
	why := SharedSuffix(n)
	if why != "" {
		r.warn(field, string(n), why, "name the hosts that are meant")
	}
	return why != ""
}

// SharedSuffix says why anybody can get a name below a wildcard: it is of a public suffix (https://publicsuffix.org), be it a registry's or one
// of shared hosting. "" where nobody but the domain's owner can.
func SharedSuffix(n host.Name) string {
	suffix := n.Suffix()[1:]
	is, icann := publicsuffix.PublicSuffix(suffix)
	switch {
	case is == suffix && icann:
		return fmt.Sprintf("anybody can register a name below %s", suffix)
	case !strings.Contains(suffix, "."):
		return "stands for every host of a top-level domain"
	case is == suffix:
		return fmt.Sprintf("%s is shared hosting: anybody can have a name below it", suffix)
	}
	for _, label := range hostingNames {
		shared := label + "." + suffix
		if is, icann := publicsuffix.PublicSuffix("a." + shared); !icann && is == shared && is != suffix {
			return fmt.Sprintf("%s is below it, which is shared hosting: anybody can have a name there", shared)
		}
	}
	return ""
}
