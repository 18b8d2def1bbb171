package deploy

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// defaultsLabel is Istio's: a ConfigMap of the control plane's namespace that has it holds parameters for all Gateways of the class that it names.
const defaultsLabel = "gateway.istio.io/defaults-for-class"

// byLabel refers to the ConfigMaps whose label names a class, by its name.
var byLabel = selection{
	ask: func(ref types.NamespacedName, o *metav1.ListOptions) {
		o.LabelSelector = labels.SelectorFromValidatedSet(labels.Set{defaultsLabel: ref.Name}).String()
	},
	call: func(ref types.NamespacedName) string {
		return fmt.Sprintf("ConfigMaps of %s with the label %s: %s", ref.Namespace, defaultsLabel, ref.Name)
	},
}

// defaultsRef is by what the defaults of a class are followed; nil where it has none: none are read, or no label can have its name.
func (k *Keeper) defaultsRef(c *caches, class string) *types.NamespacedName {
	if c.defaults == nil || len(validation.IsValidLabelValue(class)) > 0 {
		return nil
	}
	return &types.NamespacedName{Namespace: k.options.Namespace, Name: class}
}

// followDefaults follows the defaults of a class, where it is one of ours.
func (k *Keeper) followDefaults(c *caches, class string, ours bool) {
	if ref := k.defaultsRef(c, class); ref != nil {
		if !ours {
			ref = nil
		}
		c.defaults.follow(types.NamespacedName{Name: class}, ref)
	}
}

// defaultsOf are the defaults of a class: of one ConfigMap, since nothing says which of several would count first, or none.
func (k *Keeper) defaultsOf(c *caches, class string) ([]Parameters, error) {
	ref := k.defaultsRef(c, class)
	if ref == nil {
		return nil, nil
	}
	all, err := c.defaults.there(*ref)
	if len(all) > 1 {
		return nil, BadParameters{Why: fmt.Errorf("ConfigMaps %s and %s: both have the label %s: %s: keep one", all[0].NamespacedName, all[1].NamespacedName, defaultsLabel, class)}
	}
	return all, err
}
