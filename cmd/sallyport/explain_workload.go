package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// errNoWorkload is for a name that nothing has.
var errNoWorkload = errors.New("there is no pod, deployment, stateful set, daemon set or service account of that name")

// identify gives a workload the labels and the account that its pods have in the cluster, and, of a pod, its address. What it has already wins, and where it
// has labels, it need not be there.
func (a *clusterAccess) identify(ctx context.Context, flag string, w policy.Workload) (policy.Workload, error) {
	labels, account, address, err := a.lookUp(ctx, w.Namespace, w.Name)
	switch {
	case errors.Is(err, errNoWorkload) && len(w.Labels) > 0:
		return w, nil
	case errors.Is(err, errNoWorkload):
		return w, program.Misuse(fmt.Errorf("%s %s/%s: %w in namespace %s; of one that is yet to come, give the labels: ?label=value&…", flag, w.Namespace, w.Name, err, w.Namespace))
	case err != nil:
		return w, a.noAccess(fmt.Errorf("%s %s/%s: %w", flag, w.Namespace, w.Name, err))
	}
	for k, v := range labels {
		if _, ok := w.Labels[k]; !ok {
			w.Labels[k] = v
		}
	}
	w.Account = cmp.Or(w.Account, account)
	if !w.Address.IsValid() {
		w.Address, _ = netip.ParseAddr(address)
	}
	return w, nil
}

// lookUp tries what may be called so, the narrowest first. address is a pod's; "" where it has none, and of others.
func (a *clusterAccess) lookUp(ctx context.Context, namespace, name string) (labels map[string]string, account, address string, err error) {
	core, apps, get := a.client.CoreV1(), a.client.AppsV1(), metav1.GetOptions{}
	for _, try := range []func() (map[string]string, string, error){
		func() (map[string]string, string, error) {
			p, err := core.Pods(namespace).Get(ctx, name, get)
			address = p.Status.PodIP
			return p.GetLabels(), p.Spec.ServiceAccountName, err
		},
		func() (map[string]string, string, error) {
			d, err := apps.Deployments(namespace).Get(ctx, name, get)
			return d.Spec.Template.Labels, d.Spec.Template.Spec.ServiceAccountName, err
		},
		func() (map[string]string, string, error) {
			s, err := apps.StatefulSets(namespace).Get(ctx, name, get)
			return s.Spec.Template.Labels, s.Spec.Template.Spec.ServiceAccountName, err
		},
		func() (map[string]string, string, error) {
			d, err := apps.DaemonSets(namespace).Get(ctx, name, get)
			return d.Spec.Template.Labels, d.Spec.Template.Spec.ServiceAccountName, err
		},
	} {
		labels, account, err := try()
		if !apierrors.IsNotFound(err) {
			return labels, account, address, err
		}
	}
	labels, err = a.labelsOfAccount(ctx, namespace, name)
	return labels, name, "", err
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
