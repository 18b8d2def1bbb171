// Package ambient is what the controller and a node's agent must write alike: the pods of the node, and the listeners that it opens in
// them.
//
// It imports nothing of ours.
package ambient

import (
	"encoding/json"
	"slices"
	"strings"
)

// PodType is the type of the resources that tell a node's agent of its pods: which of them are in the mesh, and who they are.
const PodType = "type.googleapis.com/sallyport.ambient.v1.Pod"

// The listeners of each pod. What comes by these names are templates: the agent opens one of each in every pod of its node, with the
// pod's own values in the metadata that is below MetadataKey.
const (
	PodOutbound = "pod-outbound"
	PodInbound  = "pod-inbound"
	PodTunnel   = "pod-tunnel" // HBONE
)

// Templates are all of them.
var Templates = []string{PodOutbound, PodInbound, PodTunnel}

// OutboundOf is the name of the template of what the pods of one namespace send, where that sees something else than everybody: it asks the
// namespace's own tables.
func OutboundOf(namespace string) string { return PodOutbound + "~" + namespace }

// OwnMetadata is the key of the node metadata by which an agent says that it opens such templates in pods that name one (Pod.Outbound).
const OwnMetadata = "SALLYPORT_OWN_TEMPLATES"

// IPv6Metadata is the key of the node metadata by which an agent says that its kernel has IPv6, and that it opens pods' listeners over both families in those pods
// that have it, and over IPv4 in the others.
const IPv6Metadata = "SALLYPORT_IPV6"

// Template is which of Templates one is that the controller gave; "" where it is none.
func Template(name string) string {
	kind, _, _ := strings.Cut(name, "~")
	if !slices.Contains(Templates, kind) {
		return ""
	}
	return kind
}

// TablesFilter is the name of the listener filter, in templates of what pods send, that says of connections which table their port has. The agent takes what it
// holds out of the listeners, and gives it to Envoy by itself, so that another port does not have all pods' listeners made again.
const TablesFilter = "sallyport.tables"

// OwnAddresses is the name of a tunnel's virtual host that the agent puts the pod's own addresses into, as its domains: it leads nowhere else.
const OwnAddresses = "own"

// MetadataKey is where a pod's listeners have what differs from those of other pods.
const MetadataKey = "sallyport"

// What is there.
const (
	Identity = "identity" // the pod's SPIFFE id, by which its certificate is asked for
	Network  = "network"  // the path of its network namespace
	Name     = "pod"      // NAMESPACE/NAME
	Address  = "address"  // the pod's address
)

// ProxyType is the first part of the node id of a node's proxy; Istio's.
const ProxyType = "ztunnel"

// Label is Istio's, of a pod or its namespace. A pod's own word counts.
const (
	Label = "istio.io/dataplane-mode"
	In    = "ambient"
	Out   = "none"
)

// Pod is one of a node's pods.
type Pod struct {
	In        bool     `json:"in"` // it is in the mesh
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	UID       string   `json:"uid,omitempty"` // "" where nobody knows
	Account   string   `json:"account"`
	Identity  string   `json:"identity"` // SPIFFE id
	Addresses []string `json:"addresses,omitempty"`
	// Templates are those that are this pod's alone, by name: Envoy's listeners. For what is not there all pods share one.
	Templates map[string][]byte `json:"templates,omitempty"`
	// Outbound is the template of what it sends, where it is not the one that all pods share (OutboundOf).
	Outbound string `json:"outbound,omitempty"`
	// Why says why the pod cannot be served by the node's proxy; "" where it can.
	Why string `json:"why,omitempty"`
	// Probed are the ports that the node's kubelet connects to, which has no certificate: the agent lets it (KubeletMetadata).
	Probed []uint16 `json:"probed,omitempty"`
	// Unprobed is why the pod cannot be served where the agent cannot do that; "" where it can all the same.
	Unprobed string `json:"unprobed,omitempty"`
	// BlockQUIC: UDP 443 is refused, which the proxy does not read, since what nobody registered stays in.
	BlockQUIC bool `json:"blockQUIC,omitempty"`
}

// KubeletMetadata is the key of the node metadata by which an agent says that it lets the kubelet connect to pods (Pod.Probed), or judges by itself what
// becomes of them where it cannot.
const KubeletMetadata = "SALLYPORT_KUBELET"

// ForUnable is what is told of it to an agent that does not say KubeletMetadata: the kubelet could not come, and the pod would never be ready.
func (p Pod) ForUnable() Pod {
	if p.Why == "" {
		p.Why = p.Unprobed
	}
	p.Probed, p.Unprobed = nil, ""
	return p
}

// ForOlder is what is told of it to an agent that does not say OwnMetadata: that one would open what everybody sees, so the pod stays closed.
func (p Pod) ForOlder() Pod {
	if p.Outbound == "" {
		return p
	}
	p.Outbound = ""
	if p.Why == "" {
		p.Why = "its namespace sees hosts otherwise than everybody, and the agent of its node is older than that is served: update the agent"
	}
	return p
}

// Key is the name of its resource: NAMESPACE/NAME.
func (p Pod) Key() string { return p.Namespace + "/" + p.Name }

// Marshal writes it.
func (p Pod) Marshal() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic("ambient: a pod does not marshal: " + err.Error()) // texts always do
	}
	return b
}

// Unmarshal reads it.
func Unmarshal(b []byte) (p Pod, err error) { return p, json.Unmarshal(b, &p) }
