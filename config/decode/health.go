package decode

import "encoding/json"

// HealthChecks is Istio's annotation of a WorkloadEntry that is an endpoint only while its condition Healthy says so, and Healthy that condition.
const (
	HealthChecks = "proxy.istio.io/health-checks-enabled"
	Healthy      = "Healthy"
)

// outOf says why a WorkloadEntry is no endpoint; "" where it is one.
func outOf(annotations map[string]string, status json.RawMessage) string {
	if annotations[HealthChecks] != "true" {
		return ""
	}
	var s struct {
		Conditions []struct {
			Type, Status, Message string
		} `json:"conditions"`
	}
	if len(status) > 0 && json.Unmarshal(status, &s) != nil {
		return "its status cannot be read"
	}
	for _, c := range s.Conditions {
		switch {
		case c.Type != Healthy:
		case c.Status == "True":
			return ""
		default:
			return "its probe fails: " + c.Message
		}
	}
	return "its probe has not succeeded yet"
}
