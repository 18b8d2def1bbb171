package deploy

import (
	"context"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayinformers "sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"
	gatewaylisters "sigs.k8s.io/gateway-api/pkg/client/listers/apis/v1"
)

// caches are what is known of the cluster: the API's objects, and what Gateways own.
type caches struct {
	gateways gatewaylisters.GatewayLister
	classes  gatewaylisters.GatewayClassLister
	sets     gatewaylisters.ListenerSetLister
	owned    []cache.SharedIndexInformer // accounts, deployments, services, autoscalers, budgets

	parameters *followed
	defaults   *followed // by labels that name classes; nil where none are read

	ready []cache.InformerSynced
	stop  func()
}

// watch fills caches, and puts Gateways on the queue when something about them changes.
func (k *Keeper) watch(ctx context.Context, q queue) (*caches, error) {
	ctx, cancel := context.WithCancel(ctx)
	theirs := gatewayinformers.NewSharedInformerFactory(k.gateway, 0)
	api := theirs.Gateway().V1()
	ours := informers.NewSharedInformerFactoryWithOptions(k.kube, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = gatewayv1.GatewayNameLabelKey
	}))
	// They are there where parameters ask for them, and nothing waits for them: who upgrades may not have given the rights yet.
	extra := []cache.SharedIndexInformer{ours.Autoscaling().V2().HorizontalPodAutoscalers().Informer(), ours.Policy().V1().PodDisruptionBudgets().Informer()}
	c := &caches{
		gateways: api.Gateways().Lister(), classes: api.GatewayClasses().Lister(), sets: api.ListenerSets().Lister(),
		owned: append([]cache.SharedIndexInformer{
			ours.Core().V1().ServiceAccounts().Informer(), ours.Apps().V1().Deployments().Informer(), ours.Core().V1().Services().Informer(),
		}, extra...),
		parameters: newFollowed(ctx, k.kube, byName, q.Add),
	}
	if k.options.ClassDefaults {
		c.defaults = newFollowed(ctx, k.kube, byLabel, q.Add)
	}
	c.stop = func() {
		cancel()
		c.parameters.wait()
		if c.defaults != nil {
			c.defaults.wait()
		}
		theirs.Shutdown()
		ours.Shutdown()
	}
	handlers := map[cache.SharedIndexInformer]func(o metav1.Object){
		api.Gateways().Informer():       func(o metav1.Object) { q.Add(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}) },
		api.GatewayClasses().Informer(): func(o metav1.Object) { q.Add(types.NamespacedName{Name: o.GetName()}) },
		api.ListenerSets().Informer():   func(o metav1.Object) { q.Add(parentOf(o.(*gatewayv1.ListenerSet))) },
	}
	for _, informer := range c.owned {
		handlers[informer] = func(o metav1.Object) {
			if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == "Gateway" {
				q.Add(types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name})
			}
		}
	}
	for informer, handle := range handlers {
		registered, err := informer.AddEventHandler(onAny(handle))
		if err != nil {
			c.stop()
			return nil, err
		}
		if !slices.Contains(extra, informer) {
			c.ready = append(c.ready, registered.HasSynced)
		}
	}
	theirs.StartWithContext(ctx)
	ours.StartWithContext(ctx)
	return c, nil
}

// onAny calls handle for what comes, changes and goes.
func onAny(handle func(metav1.Object)) cache.ResourceEventHandler {
	given := func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if m, err := meta.Accessor(o); err == nil {
			handle(m)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: given, DeleteFunc: given,
		UpdateFunc: func(was, is any) {
			if !onlyStatus(was, is) {
				given(was) // a ListenerSet may have had another parent, an object another owner
				given(is)
			}
		},
	}
}

// onlyStatus says whether a change is one that nothing of ours depends on.
func onlyStatus(was, is any) bool {
	before, ok := was.(metav1.Object)
	after, same := is.(metav1.Object)
	if !ok || !same {
		return false
	}
	switch is := is.(type) {
	case *autoscalingv2.HorizontalPodAutoscaler: // it has no generation
		was := was.(*autoscalingv2.HorizontalPodAutoscaler)
		return equality.Semantic.DeepEqual(was.Spec, is.Spec) && sameMetadata(was, is)
	case *policyv1.PodDisruptionBudget, *appsv1.Deployment, *gatewayv1.Gateway, *gatewayv1.GatewayClass, *gatewayv1.ListenerSet:
		return before.GetGeneration() == after.GetGeneration() && sameMetadata(before, after)
	}
	return false
}

func sameMetadata(a, b metav1.Object) bool {
	return a.GetUID() == b.GetUID() && maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		len(a.GetOwnerReferences()) == len(b.GetOwnerReferences())
}

// synced waits until the caches are filled; it returns false when ctx ended.
func (c *caches) synced(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), c.ready...)
}

// gatewaysOf puts the Gateways of a class on the queue.
func (c *caches) gatewaysOf(q queue, class string) {
	all, _ := c.gateways.List(labels.Everything()) // a cache has no errors
	for _, g := range all {
		if string(g.Spec.GatewayClassName) == class {
			q.Add(types.NamespacedName{Namespace: g.Namespace, Name: g.Name})
		}
	}
}

// parentOf is the Gateway that a ListenerSet names.
func parentOf(s *gatewayv1.ListenerSet) types.NamespacedName {
	parent := types.NamespacedName{Namespace: s.Namespace, Name: string(s.Spec.ParentRef.Name)}
	if ns := s.Spec.ParentRef.Namespace; ns != nil {
		parent.Namespace = string(*ns)
	}
	return parent
}

// ownedBy are the objects of a Gateway that were made here: another controller's Gateways own objects, too.
func (c *caches) ownedBy(g *gatewayv1.Gateway) (all []Object) {
	for _, informer := range c.owned {
		for _, o := range informer.GetIndexer().List() {
			if o, ok := o.(Object); ok && o.GetNamespace() == g.Namespace && metav1.IsControlledBy(o, g) && madeHere(o) {
				all = append(all, o)
			}
		}
	}
	return all
}

// madeHere says whether an object was applied by a keeper.
func madeHere(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply
	})
}
