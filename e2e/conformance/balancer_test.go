package conformance

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// lookEvery is how often Services without an address are looked for.
const lookEvery = 500 * time.Millisecond

// balance gives Services that ask for a load balancer their cluster's address, until ctx ends.
func balance(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		all, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
		if err == nil {
			for _, s := range all.Items {
				if err := address(ctx, client, s); err != nil && ctx.Err() == nil {
					t.Logf("Service %s/%s: %v", s.Namespace, s.Name, err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// address gives a Service an address, if it asks for one and has none.
func address(ctx context.Context, client kubernetes.Interface, s corev1.Service) error {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": corev1.ServiceStatus{
		LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: s.Spec.ClusterIP}}},
	}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
