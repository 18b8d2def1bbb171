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

// usable is the one address that Services may ask for.
const usable = "203.0.113.7"

// balance gives Services that ask for a load balancer their cluster's address, or the one that they ask for and may have, until ctx ends.
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

// address gives a Service its address, if it asks for one and does not have it.
func address(ctx context.Context, client kubernetes.Interface, s corev1.Service) error {
	ip := s.Spec.ClusterIP
	switch s.Spec.LoadBalancerIP {
	case "":
	case usable:
		ip = usable
	default:
		return nil
	}
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 && s.Status.LoadBalancer.Ingress[0].IP == ip {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": corev1.ServiceStatus{
		LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: ip}}},
	}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
