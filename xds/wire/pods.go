package wire

// What is passed on to the own addresses of pods that have a waypoint. At nodes the table of pods is asked about it, and from there it goes to the waypoint, whose TLS name says
// which address and port is meant (PodName), and whether its requests are to be read.
const (
	PodsTable = "pods" // a node's; its rows are by the pods' addresses

	ALPNPod     = "sallyport-pod"
	ALPNPodHTTP = "sallyport-pod-http"

	InboundPods   = "inbound-pods" // a waypoint's cluster, and its tables
	InboundDecide = "inbound-pods-decide"

	// PodsSNI is the TLS name by which a waypoint speaks to the pods.
	PodsSNI = "outbound_.pods"
)

// The parts of a PodName before and after the address with its port.
const (
	PodNameBegins = "pod~"
	PodNameTCP    = "~tcp"
	PodNameHTTP   = "~http"
)

// PodName is the TLS name that says to a waypoint which address ("ip:port") is meant. It is a name of no host.
func PodName(address string, http bool) string {
	if http {
		return PodNameBegins + address + PodNameHTTP
	}
	return PodNameBegins + address + PodNameTCP
}

// PodsWaypoint is the cluster of a waypoint for pods' own addresses, by its host.
func PodsWaypoint(host string) string { return SubsetName(HBONEPort, "pods.", host) }
