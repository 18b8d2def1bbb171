package mesh

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Injection is the sallyport.injection block: what of its proxy a pod may change that lets traffic around it.
type Injection struct {
	Allow []Override
}

// Override permits changes to the pods of some namespaces.
type Override struct {
	Changes    []string // of InjectionChanges, or "*" for all
	Namespaces []string // "*" for all
	Images     []string // patterns of images that pods may bring for the proxy; "*" stands for any text
}

// InjectionChanges are the names of the changes that must be permitted. The words are Istio's annotations' where there is
// one.
var InjectionChanges = []string{
	"excludeOutboundPorts", "excludeOutboundIPRanges", "includeOutboundIPRanges", "excludeInterfaces", "interceptionMode", "dnsCapture",
	"discoveryAddress", "proxyImage", "containers",
}

// Permits says whether pods of a namespace may make a change.
func (i Injection) Permits(change, namespace string) bool {
	return slices.ContainsFunc(i.Allow, func(o Override) bool {
		return o.in(namespace) && (slices.Contains(o.Changes, change) || slices.Contains(o.Changes, "*"))
	})
}

// Images are the patterns of images that pods of a namespace may bring.
func (i Injection) Images(namespace string) (out []string) {
	for _, o := range i.Allow {
		if o.in(namespace) {
			out = append(out, o.Images...)
		}
	}
	return out
}

func (o Override) in(namespace string) bool {
	return slices.Contains(o.Namespaces, "*") || slices.Contains(o.Namespaces, namespace)
}

func (b *block) injection(v any) (out Injection) {
	const at = "sallyport.injection"
	top := b.fields(at, v, "allow")
	items, ok := top["allow"].([]any)
	if top["allow"] != nil && !ok {
		b.add(at+".allow", top["allow"], "is not a list", `write a list of {changes: [...], namespaces: [...]}`)
	}
	for i, item := range items {
		path := fmt.Sprintf("%s.allow[%d]", at, i)
		fields := b.fields(path, item, "changes", "namespaces", "images")
		o := Override{Namespaces: []string{"*"}}
		for p, change := range b.texts(path+".changes", fields["changes"]) {
			if change != "*" && !slices.Contains(InjectionChanges, change) {
				b.add(p, change, "is no change that can be permitted", `write "*" or some of `+strings.Join(InjectionChanges, ", "))
			}
			o.Changes = append(o.Changes, change)
		}
		if fields["namespaces"] != nil {
			o.Namespaces = nil
		}
		for p, ns := range b.texts(path+".namespaces", fields["namespaces"]) {
			if ns != "*" && len(validation.IsDNS1123Label(ns)) > 0 {
				b.add(p, ns, "is no namespace's name", `write "*" for all, or names`)
			}
			o.Namespaces = append(o.Namespaces, ns)
		}
		for _, image := range b.texts(path+".images", fields["images"]) {
			o.Images = append(o.Images, image)
		}
		if len(o.Changes) == 0 && len(o.Images) == 0 {
			b.add(path, item, "permits nothing", "write changes, or images")
		}
		out.Allow = append(out.Allow, o)
	}
	return out
}
