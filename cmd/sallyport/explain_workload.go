package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/sallyport/sallyport/serviceentry/policy"
)

// errNoWorkload is for a name that nothing has.
var errNoWorkload = errors.New("there is no pod, deployment, stateful set, daemon set or service account of that name")

// identify gives a workload the labels that its pods have in the cluster. Labels that it has already win, and where it
// has some, it need not be there.
func (a *clusterAccess) identify(ctx context.Context, w policy.Workload) (policy.Workload, error) {
	labels, err := a.labelsOf(ctx, w.Namespace, w.Name)
	switch {
	case errors.Is(err, errNoWorkload) && len(w.Labels) > 0:
		return w, nil
	case errors.Is(err, errNoWorkload):
		return w, usageError{fmt.Errorf("--from %s/%s: %w in namespace %s; of one that is yet to come, give the labels: ?label=value&…", w.Namespace, w.Name, err, w.Namespace)}
	case err != nil:
		return w, a.noAccess(fmt.Errorf("--from %s/%s: %w", w.Namespace, w.Name, err))
	}
	for k, v := range labels {
		if _, ok := w.Labels[k]; !ok {
			w.Labels[k] = v
		}
	}
	return w, nil
}

// labelsOf tries what may be called so, the narrowest first.
func (a *clusterAccess) labelsOf(ctx context.Context, namespace, name string) (map[string]string, error) {
	core, apps, get := a.client.CoreV1(), a.client.AppsV1(), metav1.GetOptions{}
	for _, try := range []func() (map[string]string, error){
		func() (map[string]string, error) {
			p, err := core.Pods(namespace).Get(ctx, name, get)
			return p.GetLabels(), err
		},
		func() (map[string]string, error) {
			d, err := apps.Deployments(namespace).Get(ctx, name, get)
			return d.Spec.Template.Labels, err
		},
		func() (map[string]string, error) {
			s, err := apps.StatefulSets(namespace).Get(ctx, name, get)
			return s.Spec.Template.Labels, err
		},
		func() (map[string]string, error) {
			d, err := apps.DaemonSets(namespace).Get(ctx, name, get)
			return d.Spec.Template.Labels, err
		},
	} {
		labels, err := try()
		if !apierrors.IsNotFound(err) {
			return labels, err
		}
	}
	return a.labelsOfAccount(ctx, namespace, name)
}

// labelsOfAccount are those that all pods of a service account have.
func (a *clusterAccess) labelsOfAccount(ctx context.Context, namespace, name string) (map[string]string, error) {
	pods, err := a.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.serviceAccountName", name).String(),
	})
	if err != nil {
		return nil, err
	}
	if len(pods.Items) > 0 {
		return common(pods.Items), nil
	}
	_, err = a.client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, errNoWorkload
	}
	return nil, err
}

func common(pods []corev1.Pod) map[string]string {
	labels := map[string]string{}
	for k, v := range pods[0].Labels {
		labels[k] = v
	}
	for _, p := range pods[1:] {
		for k, v := range labels {
			if p.Labels[k] != v {
				delete(labels, k)
			}
		}
	}
	return labels
}
