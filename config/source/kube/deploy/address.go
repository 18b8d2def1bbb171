package deploy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// addresses are those by which a Gateway's Service is found: its load balancer's, or, where it asks for none, the cluster's.
func addresses(of *corev1.Service) (out []gatewayv1.GatewayStatusAddress) {
	add := func(kind gatewayv1.AddressType, value string) {
		if value != "" && value != corev1.ClusterIPNone {
			out = append(out, gatewayv1.GatewayStatusAddress{Type: &kind, Value: value})
		}
	}
	if of.Spec.Type == corev1.ServiceTypeLoadBalancer {
		for _, i := range of.Status.LoadBalancer.Ingress {
			add(gatewayv1.IPAddressType, i.IP)
			add(gatewayv1.HostnameAddressType, i.Hostname)
		}
		return out
	}
	for _, ip := range of.Spec.ClusterIPs {
		add(gatewayv1.IPAddressType, ip)
	}
	return out
}

// equal says whether two States say the same.
func equal(a, b State) bool {
	return a.Problem == b.Problem && a.BadParameters == b.BadParameters && slices.EqualFunc(a.Addresses, b.Addresses, func(x, y gatewayv1.GatewayStatusAddress) bool {
		return *x.Type == *y.Type && x.Value == y.Value
	})
}
