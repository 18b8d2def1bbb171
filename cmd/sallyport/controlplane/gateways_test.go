package controlplane

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config/source/kube/deploy"
)

// TestPlace: a Gateway is programmed once it has an address, and never where what is written cannot be.
func TestPlace(t *testing.T) {
	address := []gatewayv1.GatewayStatusAddress{{Type: new(gatewayv1.IPAddressType), Value: "192.0.2.1"}}
	for name, c := range map[string]struct {
		written metav1.ConditionStatus
		state   deploy.State
		status  metav1.ConditionStatus
		reason  string
		asked   []string
	}{
		"no address":           {metav1.ConditionTrue, deploy.State{}, metav1.ConditionFalse, "AddressNotAssigned", nil},
		"address":              {metav1.ConditionTrue, deploy.State{Addresses: address}, metav1.ConditionTrue, "as written", nil},
		"problem":              {metav1.ConditionTrue, deploy.State{Addresses: address, Problem: "taken"}, metav1.ConditionFalse, "NoResources", nil},
		"address, but invalid": {metav1.ConditionFalse, deploy.State{Addresses: address}, metav1.ConditionFalse, "as written", nil},
		"asked for":            {metav1.ConditionTrue, deploy.State{Addresses: address}, metav1.ConditionTrue, "as written", []string{"192.0.2.1"}},
		"not given":            {metav1.ConditionTrue, deploy.State{}, metav1.ConditionFalse, "AddressNotUsable", []string{"192.0.2.1"}},
		"another is given":     {metav1.ConditionTrue, deploy.State{Addresses: address}, metav1.ConditionFalse, "AddressNotUsable", []string{"192.0.2.1", "192.0.2.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			told := gatewayv1.GatewayStatus{Conditions: []metav1.Condition{
				{Type: "Accepted", Status: metav1.ConditionTrue}, {Type: "Programmed", Status: c.written, Reason: "as written"},
			}}
			place(&told, c.state, c.asked)
			if p := told.Conditions[1]; p.Status != c.status || p.Reason != c.reason || told.Conditions[0].Status != metav1.ConditionTrue {
				t.Errorf("%+v", told.Conditions)
			}
			if len(told.Addresses) != len(c.state.Addresses) {
				t.Errorf("addresses %+v", told.Addresses)
			}
		})
	}
}
