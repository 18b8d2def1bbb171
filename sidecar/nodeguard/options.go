package nodeguard

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// Options are what an operator chooses.
type Options struct {
	Node string // this node's name
	// Namespaces names the guarded ones. Without any, those that a selector of NamespaceSelectors matches are guarded.
	Namespaces         []string
	NamespaceSelectors []labels.Selector
	Exempt             []Exemption
	PodNetworks        []netip.Prefix // of all pods, beside what Nodes say
	Allow              []netip.Prefix // further destinations
	// AllowUnknown lets addresses of this node's pod networks that no known pod has reach the world.
	AllowUnknown bool
	// AllowSpoofed leaves out the check that a source's route leads back to where the packet came from.
	AllowSpoofed bool
	// NoLog leaves out the samples of refused packets, for kernels without nfnetlink_log.
	NoLog bool
}

// DefaultSelectors are the namespaces whose pods get sidecars, or are served by their nodes, by Istio's labels.
const DefaultSelectors = "istio-injection=enabled;istio.io/rev;istio.io/dataplane-mode=ambient"

// SystemNamespaces are never guarded, and their pods never served by their nodes: the cluster's own.
var SystemNamespaces = []string{"kube-system", "kube-public", "kube-node-lease"}

// ParseSelectors reads label selectors with semicolons between them; one that matches is enough.
func ParseSelectors(text string) ([]labels.Selector, error) {
	var selectors []labels.Selector
	for one := range strings.SplitSeq(text, ";") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		s, err := labels.Parse(one)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", one, err)
		}
		selectors = append(selectors, s)
	}
	return selectors, nil
}

// Exemption takes pods out: all of a namespace, or those that have certain labels there. Without the namespace, whoever may
// label a pod could take it out.
type Exemption struct {
	Namespace string
	Pods      labels.Selector
}

// ParseExemption reads NAMESPACE or NAMESPACE/SELECTOR.
func ParseExemption(text string) (Exemption, error) {
	namespace, selector, narrowed := strings.Cut(text, "/")
	if namespace == "" || strings.ContainsAny(namespace, "=,* ") {
		return Exemption{}, fmt.Errorf("%q: say NAMESPACE or NAMESPACE/key=value", text)
	}
	e := Exemption{Namespace: namespace, Pods: labels.Everything()}
	if !narrowed {
		return e, nil
	}
	var err error
	if e.Pods, err = labels.Parse(selector); err != nil {
		return Exemption{}, fmt.Errorf("%q: %w", text, err)
	}
	if e.Pods.Empty() {
		return Exemption{}, fmt.Errorf("%q: no selector behind the slash: leave the slash out for the whole namespace", text)
	}
	return e, nil
}

// ParseNetworks reads networks, or addresses that stand for themselves.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, alone := netip.ParseAddr(text); err != nil && alone == nil {
			p, err = a.Unmap().WithZone("").Prefix(a.Unmap().BitLen())
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q: no network (as 10.0.0.0/8) and no address", text)
		case p.Addr().Is4In6():
			return nil, fmt.Errorf("%q: write it as an IPv4 network", text)
		case p.Bits() == 0:
			return nil, fmt.Errorf("%q: that is the whole world, and nothing would be guarded", text)
		case p != p.Masked():
			return nil, fmt.Errorf("%q: has bits behind its length: did you mean %s?", text, p.Masked())
		}
		networks = append(networks, p)
	}
	return networks, nil
}

// Guards tells whether the pod is one of those to guard, by the labels of namespaces. A namespace that is not known yet counts as
// guarded.
func (o Options) Guards(p Pod, namespaces map[string]map[string]string) bool {
	for _, e := range o.Exempt {
		if e.Namespace == p.Namespace && e.Pods.Matches(labels.Set(p.Labels)) {
			return false
		}
	}
	if slices.Contains(SystemNamespaces, p.Namespace) {
		return false
	}
	if len(o.Namespaces) > 0 {
		return slices.Contains(o.Namespaces, p.Namespace)
	}
	have, known := namespaces[p.Namespace]
	return !known || slices.ContainsFunc(o.NamespaceSelectors, func(s labels.Selector) bool { return s.Matches(labels.Set(have)) })
}
