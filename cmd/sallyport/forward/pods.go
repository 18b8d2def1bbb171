package forward

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/typed/core/v1"
)

// NoneError says that there is no pod to connect to.
type NoneError struct {
	Namespace, Selector string
	NotReady            []string // pods that there are, but that do not serve
}

func (e *NoneError) Error() string {
	if len(e.NotReady) > 0 {
		return fmt.Sprintf("namespace %s: no pod with the label %s is ready: %s; see kubectl -n %s describe pods -l %s",
			e.Namespace, e.Selector, strings.Join(e.NotReady, ", "), e.Namespace, e.Selector)
	}
	return fmt.Sprintf("namespace %s: there is no pod with the label %s; is the control plane in another namespace? name it with --system-namespace",
		e.Namespace, e.Selector)
}

// Ready lists the pods with the label that are ready, in order of their names, and the names of those that are not.
// The error is a *NoneError when none is ready.
func Ready(ctx context.Context, pods v1.PodsGetter, namespace, selector string) (ready []corev1.Pod, notReady []string, err error) {
	list, err := pods.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, nil, err
	}
	for _, pod := range list.Items {
		switch {
		case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		case IsReady(&pod):
			ready = append(ready, pod)
		default:
			notReady = append(notReady, pod.Name)
		}
	}
	slices.SortFunc(ready, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(notReady)
	if len(ready) == 0 {
		return nil, notReady, &NoneError{Namespace: namespace, Selector: selector, NotReady: notReady}
	}
	return ready, notReady, nil
}

// IsReady says whether a pod runs, serves, and is not about to end.
func IsReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning &&
		slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}
