// Package health is what the controller and a machine's agent must write alike: by which group it joins, the probe of the machine's WorkloadGroup, and what the agent says
// of it.
//
// It imports nothing of ours.
package health

import "encoding/json"

// GroupMetadata is the node metadata, Istio's, with the WorkloadGroup that a machine joins by.
const GroupMetadata = "AUTO_REGISTER_GROUP"

// ProbeType is the type of the one resource that tells an agent what to ask its machine's application.
const ProbeType = "type.googleapis.com/sallyport.machine.v1.Probe"

// ProbeName is that resource's name.
const ProbeName = "probe"

// Type is Istio's, of requests by which an agent says how its machine is: well, or not, as the request's error says. Nothing is answered.
const Type = "type.googleapis.com/istio.v1.HealthInformation"

// Probe is that of a WorkloadGroup, in Kubernetes' form. One of the actions is set.
type Probe struct {
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`
	TimeoutSeconds      int32 `json:"timeoutSeconds,omitempty"`   // 0 for 1
	PeriodSeconds       int32 `json:"periodSeconds,omitempty"`    // 0 for 10
	SuccessThreshold    int32 `json:"successThreshold,omitempty"` // 0 for 1
	FailureThreshold    int32 `json:"failureThreshold,omitempty"` // 0 for 3

	HTTPGet   *HTTPGet `json:"httpGet,omitempty"`
	TCPSocket *Port    `json:"tcpSocket,omitempty"`
	GRPC      *GRPC    `json:"grpc,omitempty"`
	Exec      *Exec    `json:"exec,omitempty"`
}

// HTTPGet succeeds on a status from 200 to 399.
type HTTPGet struct {
	Path    string   `json:"path,omitempty"`
	Port    uint32   `json:"port"`
	Scheme  string   `json:"scheme,omitempty"` // HTTP or HTTPS, whose certificate is not verified
	Headers []Header `json:"httpHeaders,omitempty"`
}

// Header is sent with an HTTPGet.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Port succeeds when it accepts a connection.
type Port struct {
	Port uint32 `json:"port"`
}

// GRPC asks grpc.health.v1.Health; it succeeds on SERVING.
type GRPC struct {
	Port    uint32 `json:"port"`
	Service string `json:"service,omitempty"`
}

// Exec succeeds when the command ends with 0.
type Exec struct {
	Command []string `json:"command"`
}

// Marshal writes it.
func (p Probe) Marshal() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic("health: a probe does not marshal: " + err.Error()) // texts and numbers always do
	}
	return b
}

// Unmarshal reads it.
func Unmarshal(b []byte) (p Probe, err error) { return p, json.Unmarshal(b, &p) }
