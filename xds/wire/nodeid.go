package wire

import "strings"

// NamesWaitMetadata is the key of the node metadata by which a sidecar's agent says that it answers a new name only when its Envoy has given its word about all
// that came before it (relay.Watch.Last): the controller may send a name with the row that it leads to.
const NamesWaitMetadata = "SALLYPORT_NAMES_WAIT"

// ReconnectsMetadata is the key of the node metadata by which a sidecar's agent says that its pod's rules lead what the proxy connects to from PassthroughSource, other than the
// app itself, back to the proxy (sidecar/redirect): so a connection can be made once more.
const ReconnectsMetadata = "SALLYPORT_RECONNECTS"

// PodOfNode gives the pod in a node id, TYPE~IP~POD.NAMESPACE~DOMAIN, and its namespace; nothing of what is of another form. A pod's name may hold dots. Whether the
// id is true is another matter (xds/identity/workload).
func PodOfNode(id string) (pod, namespace string) {
	parts := strings.Split(id, "~")
	if len(parts) != 4 {
		return "", ""
	}
	dot := strings.LastIndexByte(parts[2], '.')
	if dot < 0 {
		return "", ""
	}
	return parts[2][:dot], parts[2][dot+1:]
}
