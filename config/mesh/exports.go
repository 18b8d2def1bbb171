package mesh

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/config/host"
)

// Exports is sallyport.exports: whose ServiceEntries count beyond their own namespace (docs/adr/0012-neighbours.md). Those
// of the root namespace always do. What a namespace registers counts for itself whatever is written here.
type Exports []Export

// Export lets namespaces export hosts. That an entry's exportTo says so is needed too.
type Export struct {
	Namespaces []string    // names, or "*"
	Hosts      []host.Name // patterns, or host.Any
	// ResolvedOnly takes out entries that say themselves where their hosts are, see Leads.
	ResolvedOnly bool
}

// The two values of sallyport.exports that stand for lists.
const (
	exportsDefault = "default"
	exportsIstio   = "istio"
)

// DefaultExports lets everybody export hosts that the mesh's gateway finds by their names.
func DefaultExports() Exports {
	return Exports{{Namespaces: []string{"*"}, Hosts: []host.Name{host.Any}, ResolvedOnly: true}}
}

// IstioExports lets everybody export everything, as in Istio: for meshes of one team.
func IstioExports() Exports {
	return Exports{{Namespaces: []string{"*"}, Hosts: []host.Name{host.Any}}}
}

// Allows says whether a namespace may export a host. leads says that the entry itself says where the host is.
func (e Exports) Allows(namespace string, h host.Name, leads bool) bool {
	return slices.ContainsFunc(e, func(x Export) bool {
		return !(leads && x.ResolvedOnly) &&
			slices.ContainsFunc(x.Namespaces, func(ns string) bool { return ns == "*" || ns == namespace }) &&
			slices.ContainsFunc(x.Hosts, func(p host.Name) bool { return host.Matches(p, h) })
	})
}

// Withheld says why the export of an entry's host beyond its namespace does not count: the field that decides and a few
// words; both are "" when it counts. gateway is where the entry leaves; direct for what leaves straight from pods.
func (c *Config) Withheld(namespace string, spec *networking.ServiceEntry, h host.Name, gateway Gateway) (field, why string) {
	if namespace == c.RootNamespace || ownName(namespace, h) {
		return "", ""
	}
	if why := c.claims(h); why != "" {
		return "spec.hosts", why
	}
	leads := c.Leads(spec, gateway)
	switch {
	case c.Exports.Allows(namespace, h, leads != ""):
		return "", ""
	case leads != "" && c.Exports.Allows(namespace, h, false):
		return leads, "the entry itself says where the host is"
	default:
		return "spec.exportTo", "the mesh settings let this namespace export other hosts only"
	}
}

// Leads names the field by which an entry itself says where its hosts are; "" when they are found by their names, by
// the mesh's own gateway or by the pod that asks.
func (c *Config) Leads(spec *networking.ServiceEntry, gateway Gateway) string {
	switch {
	case spec.Resolution == networking.ServiceEntry_STATIC:
		return "spec.resolution"
	case len(spec.Endpoints) > 0:
		return "spec.endpoints"
	case len(spec.Addresses) > 0:
		return "spec.addresses"
	case spec.WorkloadSelector != nil:
		return "spec.workloadSelector"
	case spec.Location == networking.ServiceEntry_MESH_EXTERNAL && !gateway.IsDirect() && gateway != c.DefaultGateway && gateway.Namespace != c.RootNamespace:
		return `metadata.annotations["egress.sallyport.io/gateway"]`
	}
	return ""
}

// clusterDomain is what all names of a cluster are below.
const clusterDomain = "cluster.local"

// claims says why nobody can register a name for others: it means something else in each namespace, or it is the cluster's.
func (c *Config) claims(h host.Name) string {
	name := strings.TrimPrefix(string(h), "*.")
	switch {
	case !h.IsWildcard() && !strings.Contains(name, "."):
		return "short names are each namespace's own"
	case name == clusterDomain, strings.HasSuffix(name, "."+clusterDomain), h.IsWildcard() && host.Matches(h, clusterDomain),
		lastLabel(name) == "svc", lastLabel(name) == "pod":
		return "the cluster's names are those of its Services and pods"
	}
	return ""
}

// ownName says whether a name of the cluster is one of a namespace's own: "NAME.NS.svc.cluster.local", what is below
// it, and its short forms.
func ownName(namespace string, h host.Name) bool {
	name := strings.TrimSuffix(string(h), "."+clusterDomain)
	kind := lastLabel(name)
	if kind != "svc" && kind != "pod" {
		return false
	}
	name = strings.TrimSuffix(name, "."+kind)
	return strings.HasSuffix(name, "."+namespace)
}

func lastLabel(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// exports reads sallyport.exports: a word, or a list of who may export what.
func (b *block) exports(tree any) Exports {
	const at = "sallyport.exports"
	switch tree {
	case nil, exportsDefault:
		return DefaultExports()
	case exportsIstio:
		return IstioExports()
	}
	rows, ok := tree.([]any)
	if !ok {
		b.add(at, tree, "is neither a word that is known nor a list", `write "default", "istio", or a list of {namespaces: [team-a], hosts: ["*.example.com"]}`)
		return DefaultExports()
	}
	out := Exports{}
	for i, row := range rows {
		where := fmt.Sprintf("%s[%d]", at, i)
		in := b.fields(where, row, "namespaces", "hosts", "resolvedOnly")
		var x Export
		for path, s := range b.texts(where+".namespaces", in["namespaces"]) {
			if s != "*" && len(validation.IsDNS1123Label(s)) > 0 {
				b.add(path, s, "is no namespace", `write a namespace's name, or "*" for all`)
			}
			x.Namespaces = append(x.Namespaces, s)
		}
		for path, s := range b.texts(where+".hosts", in["hosts"]) {
			n, err := host.ParsePattern(s)
			if err != nil {
				b.add(path, s, "is no host", `write a host, or a pattern as in "*.example.com", or "*" for all`)
			}
			x.Hosts = append(x.Hosts, n)
		}
		if v, ok := in["resolvedOnly"]; ok {
			if x.ResolvedOnly, ok = v.(bool); !ok {
				b.add(where+".resolvedOnly", v, "is neither true nor false", "write true or false")
			}
		}
		if in != nil && len(x.Namespaces) == 0 {
			b.add(where+".namespaces", nil, "is empty, so the row lets nobody export", `name namespaces, or "*" for all`)
		}
		if in != nil && len(x.Hosts) == 0 {
			b.add(where+".hosts", nil, "is empty, so the row lets nothing be exported", `name hosts, or "*" for all`)
		}
		out = append(out, x)
	}
	return out
}
