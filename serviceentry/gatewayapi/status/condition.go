package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// condition is true with a reason, unless there is a problem.
func condition(kind, reason string, p gatewayapi.Problem) metav1.Condition {
	if p.Is() {
		return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: p.Reason, Message: p.Message}
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason}
}

// first is the first problem.
func first(list ...gatewayapi.Problem) gatewayapi.Problem {
	for _, p := range list {
		if p.Is() {
			return p
		}
	}
	return gatewayapi.Problem{}
}
