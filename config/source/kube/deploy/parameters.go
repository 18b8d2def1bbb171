package deploy

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Parameters are what a ConfigMap that a Gateway, or its class, names says of what is made of it.
type Parameters struct {
	types.NamespacedName
	Data map[string]string
}

// BadParameters is an error of Options.Render, or of Options.Check, about parameters.
type BadParameters struct{ Why error }

func (e BadParameters) Error() string { return e.Why.Error() }

// Unwrap gives what is wrong with them.
func (e BadParameters) Unwrap() error { return e.Why }

// errUnread says that a ConfigMap was not read yet. Nothing is done without it: what is deployed has what it said before.
var errUnread = errors.New("its parameters were not read yet")

// ofGateway is the ConfigMap that a Gateway names; nil for none.
func ofGateway(g *gatewayv1.Gateway) (*types.NamespacedName, error) {
	if g.Spec.Infrastructure == nil || g.Spec.Infrastructure.ParametersRef == nil {
		return nil, nil
	}
	ref := g.Spec.Infrastructure.ParametersRef
	if ref.Group != "" || ref.Kind != configMap {
		return nil, BadParameters{Why: wrongKind("spec.infrastructure.parametersRef", string(ref.Group), string(ref.Kind))}
	}
	return &types.NamespacedName{Namespace: g.Namespace, Name: ref.Name}, nil
}

// ofClass is the ConfigMap that a class names; nil for none. Whoever makes classes may not be who may read everybody's ConfigMaps, so it is of one namespace.
func (k *Keeper) ofClass(class *gatewayv1.GatewayClass) (*types.NamespacedName, error) {
	ref := class.Spec.ParametersRef
	if ref == nil {
		return nil, nil
	}
	if ref.Group != "" || ref.Kind != configMap {
		return nil, BadParameters{Why: wrongKind("spec.parametersRef", string(ref.Group), string(ref.Kind))}
	}
	named := ""
	if ref.Namespace != nil {
		named = string(*ref.Namespace)
	}
	if named != k.options.Namespace {
		return nil, BadParameters{Why: fmt.Errorf("spec.parametersRef.namespace: %q: a class's parameters are in the control plane's namespace: write %s", named, k.options.Namespace)}
	}
	return &types.NamespacedName{Namespace: named, Name: ref.Name}, nil
}

const configMap = "ConfigMap"

func wrongKind(at, group, kind string) error {
	return fmt.Errorf("%s: kind %q of group %q: parameters are in a ConfigMap: write group: \"\", kind: ConfigMap", at, kind, group)
}

// parametersOf are those of a Gateway's class, by its label and by its name, and its own, in this order.
func (k *Keeper) parametersOf(c *caches, g *gatewayv1.Gateway, class *gatewayv1.GatewayClass) ([]Parameters, error) {
	own, err := ofGateway(g)
	c.parameters.follow(types.NamespacedName{Namespace: g.Namespace, Name: g.Name}, own)
	if err != nil {
		return nil, err
	}
	shared, err := k.ofClass(class)
	if err != nil {
		return nil, fmt.Errorf("GatewayClass %s: %w", class.Name, err)
	}
	out, err := k.defaultsOf(c, class.Name)
	if err != nil {
		return nil, fmt.Errorf("GatewayClass %s: %w", class.Name, err)
	}
	for _, ref := range []*types.NamespacedName{shared, own} {
		if ref == nil {
			continue
		}
		p, err := c.parameters.read(*ref)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// keepClass follows the parameters of a class, tells what is wrong with them, and has its Gateways looked at.
func (k *Keeper) keepClass(c *caches, q queue, name string) {
	follower := types.NamespacedName{Name: name}
	class, err := c.classes.Get(name)
	if err != nil || class.Spec.ControllerName != k.options.Controller {
		c.parameters.follow(follower, nil)
		k.followDefaults(c, name, false)
		k.tellClass(name, "")
		c.gatewaysOf(q, name)
		return
	}
	ref, err := k.ofClass(class)
	c.parameters.follow(follower, ref)
	k.followDefaults(c, name, true)
	if err == nil {
		err = k.checkClass(c, name, ref)
	}
	c.gatewaysOf(q, name)
	switch {
	case err == nil:
		k.tellClass(name, "")
	case !errors.Is(err, errUnread):
		k.tellClass(name, err.Error())
	}
}

// checkClass says what is wrong with the parameters of a class: by its label, and those that it names, nil for none.
func (k *Keeper) checkClass(c *caches, name string, ref *types.NamespacedName) error {
	all, err := k.defaultsOf(c, name)
	if err != nil {
		return err
	}
	if ref != nil {
		p, err := c.parameters.read(*ref)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	for _, p := range all {
		if k.options.Check == nil {
			break
		}
		if err := k.options.Check(p); err != nil {
			return err
		}
	}
	return nil
}

// tellClass notes what is wrong with a class's parameters, "" for nothing.
func (k *Keeper) tellClass(name, problem string) {
	k.mu.Lock()
	same := k.classes[name] == problem
	if problem == "" {
		delete(k.classes, name)
	} else {
		k.classes[name] = problem
	}
	k.mu.Unlock()
	if !same && k.options.ClassChanged != nil {
		k.options.ClassChanged(name, problem)
	}
}
