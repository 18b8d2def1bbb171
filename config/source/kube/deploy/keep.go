package deploy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// keep makes the cluster have what a Gateway consists of, and nothing else of it.
func (k *Keeper) keep(ctx context.Context, c *caches, key types.NamespacedName) error {
	g, err := c.gateways.Gateways(key.Namespace).Get(key.Name)
	if err != nil || g.DeletionTimestamp != nil { // its objects go with it
		c.parameters.follow(key, nil)
		k.tell(key, nil)
		return nil
	}
	class, err := c.classes.Get(string(g.Spec.GatewayClassName))
	if err != nil || class.Spec.ControllerName != k.options.Controller {
		c.parameters.follow(key, nil)
		k.tell(key, nil)
		if err != nil {
			return nil // it may be about to come back: nobody is cut off because a class is made anew
		}
		return k.remove(ctx, c.ownedBy(g))
	}
	sets, err := k.setsOf(ctx, c, g)
	if err != nil {
		return err
	}
	parameters, err := k.parametersOf(c, g, class)
	if errors.Is(err, errUnread) {
		return nil // it is looked at again when they are read
	}
	if err != nil {
		k.stays(c, g, err)
		return unlessBad(err)
	}
	objects, err := k.options.Render(g, sets, parameters)
	if err != nil {
		k.stays(c, g, err)
		return nil // it changes when the Gateway does, or its parameters
	}
	if err := k.applyAll(ctx, c, g, objects, len(parameters) > 0); err != nil {
		k.stays(c, g, err)
		return err
	}
	return nil
}

// unlessBad gives errors that may pass by themselves.
func unlessBad(err error) error {
	if isBad(err) {
		return nil
	}
	return err
}

// stays tells why a Gateway is not deployed as it says. What was deployed of it before stays, and so do its addresses.
func (k *Keeper) stays(c *caches, g *gatewayv1.Gateway, why error) {
	s := State{Problem: why.Error(), BadParameters: isBad(why)}
	for _, o := range c.ownedBy(g) {
		if service, is := o.(*corev1.Service); is {
			s.Addresses = addresses(service)
		}
	}
	k.tell(types.NamespacedName{Namespace: g.Namespace, Name: g.Name}, &s)
}

// applyAll makes the cluster hold these objects of a Gateway, and no others. tried says that the server is asked first whether it takes all of them: what
// parameters make of one is not applied where it refuses another.
func (k *Keeper) applyAll(ctx context.Context, c *caches, g *gatewayv1.Gateway, objects []Object, tried bool) error {
	if tried {
		if err := k.try(ctx, g, objects); err != nil {
			return err
		}
	}
	s := State{}
	var rest []Object // of an earlier class, or of earlier parameters
	for _, o := range c.ownedBy(g) {
		if !slices.ContainsFunc(objects, func(want Object) bool { return sameObject(want, o) }) {
			rest = append(rest, o)
		}
	}
	counted := isCounted(objects)
	for _, o := range objects {
		held, err := k.apply(ctx, g, o, counted, false)
		if err != nil {
			return err
		}
		if held != nil {
			s.Addresses = addresses(held)
		}
	}
	k.tell(types.NamespacedName{Namespace: g.Namespace, Name: g.Name}, &s)
	return k.remove(ctx, rest)
}

// try asks the server whether it would take the objects. Only what it calls invalid counts: whatever else it says, it says again when they are applied.
func (k *Keeper) try(ctx context.Context, g *gatewayv1.Gateway, objects []Object) error {
	counted := isCounted(objects)
	for _, o := range objects {
		if _, err := k.apply(ctx, g, o, counted, true); apierrors.IsInvalid(err) {
			return BadParameters{Why: fmt.Errorf("the API server does not take what the parameters make of it: %w", err)}
		}
	}
	return nil
}

// sameObject says whether two are one object of the API server's.
func sameObject(a, b Object) bool {
	return resourceOf(a) == resourceOf(b) && a.GetName() == b.GetName()
}

// resourceOf is where an object is written.
func resourceOf(o Object) schema.GroupVersionResource {
	switch o.(type) {
	case *appsv1.Deployment:
		return appsv1.SchemeGroupVersion.WithResource("deployments")
	case *corev1.Service:
		return corev1.SchemeGroupVersion.WithResource("services")
	case *autoscalingv2.HorizontalPodAutoscaler:
		return autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")
	case *policyv1.PodDisruptionBudget:
		return policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")
	default:
		return corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	}
}

// apply makes the API server hold an object of a Gateway, unless that is somebody else's. It gives what it holds of a Service. counted says that an
// autoscaler counts the pods; dry, that nothing is to change.
func (k *Keeper) apply(ctx context.Context, g *gatewayv1.Gateway, o Object, counted, dry bool) (*corev1.Service, error) {
	resource := resourceOf(o)
	at := k.dynamic.Resource(resource).Namespace(o.GetNamespace())
	options := metav1.PatchOptions{FieldManager: FieldManager, Force: new(true)}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	held, err := at.Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, err
	case !metav1.IsControlledBy(held, g):
		return nil, fmt.Errorf("%s %s/%s is there already and is not this Gateway's: remove it, or give the Gateway another name", resource.Resource, o.GetNamespace(), o.GetName())
	}
	if d, is := o.(*appsv1.Deployment); is && counted && held != nil {
		o = leftToCount(d, held)
	}
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	applied, err := at.Patch(ctx, o.GetName(), types.ApplyPatchType, data, options)
	if err != nil || resource.Resource != "services" {
		return nil, err
	}
	text, err := applied.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var s corev1.Service
	return &s, json.Unmarshal(text, &s)
}

// remove takes objects out of the cluster.
func (k *Keeper) remove(ctx context.Context, objects []Object) error {
	var errs []error
	for _, o := range objects {
		uid := o.GetUID()
		err := k.dynamic.Resource(resourceOf(o)).Namespace(o.GetNamespace()).Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// keepClasses makes the GatewayClasses where there is none of a name. One that is somebody else's stays that.
func (k *Keeper) keepClasses(ctx context.Context, c *caches) error {
	var errs []error
	for _, name := range k.options.Classes {
		if _, err := c.classes.Get(name); err == nil {
			continue
		}
		class := &gatewayv1.GatewayClass{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       gatewayv1.GatewayClassSpec{ControllerName: k.options.Controller, Description: new("Gateways that Sallyport deploys")},
		}
		_, err := k.gateway.GatewayV1().GatewayClasses().Create(ctx, class, metav1.CreateOptions{FieldManager: FieldManager})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// setsOf are the ListenerSets that a Gateway lets in, oldest first.
func (k *Keeper) setsOf(ctx context.Context, c *caches, g *gatewayv1.Gateway) ([]*gatewayv1.ListenerSet, error) {
	from := gatewayv1.NamespacesFromNone
	if a := g.Spec.AllowedListeners; a != nil && a.Namespaces != nil && a.Namespaces.From != nil {
		from = *a.Namespaces.From
	}
	if from == gatewayv1.NamespacesFromNone {
		return nil, nil
	}
	all, _ := c.sets.List(labels.Everything()) // a cache has no errors
	var in []*gatewayv1.ListenerSet
	for _, s := range all {
		if parentOf(s) != (types.NamespacedName{Namespace: g.Namespace, Name: g.Name}) {
			continue
		}
		switch from {
		case gatewayv1.NamespacesFromAll:
		case gatewayv1.NamespacesFromSame:
			if s.Namespace != g.Namespace {
				continue
			}
		default:
			may, err := k.selected(ctx, g.Spec.AllowedListeners.Namespaces.Selector, s.Namespace)
			if err != nil {
				return nil, err
			}
			if !may {
				continue
			}
		}
		in = append(in, s)
	}
	slices.SortFunc(in, func(a, b *gatewayv1.ListenerSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return in, nil
}

// selected says whether a namespace's labels are those of a selector.
func (k *Keeper) selected(ctx context.Context, by *metav1.LabelSelector, namespace string) (bool, error) {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return false, nil //nolint:nilerr // the Gateway's status says it
	}
	ns, err := k.kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && selector.Matches(labels.Set(ns.Labels)), err
}
