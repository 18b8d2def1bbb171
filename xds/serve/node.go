package serve

import (
	"fmt"
	"net/netip"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/sallyport/sallyport/config/machine"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/health"
	"github.com/sallyport/sallyport/xds/netcap"
	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

// The node metadata that is read; the first two are Istio's keys.
const (
	MetaNamespace = "NAMESPACE"
	MetaLabels    = "LABELS"
	MetaAccount   = "SERVICE_ACCOUNT"
	MetaForward   = "SALLYPORT_FORWARD_PROXY" // ip:port of an explicit forward proxy
	MetaNetwork   = "NETWORK"                 // Istio's, of a machine
)

// parseNode reads who a proxy says it is: "TYPE~IP~POD.NS~NS.svc.cluster.local" and Istio's metadata.
func parseNode(n *core.Node, inline bool) (translate.Node, error) {
	parts := strings.Split(n.GetId(), "~")
	if len(parts) != 4 {
		return translate.Node{}, fmt.Errorf("node id %q: want TYPE~IP~POD.NAMESPACE~DOMAIN", n.GetId())
	}
	switch parts[0] {
	case "sidecar", "router", "waypoint", ambient.ProxyType:
	default:
		return translate.Node{}, fmt.Errorf("node id %q: the type %q is none of sidecar, router, waypoint, ztunnel", n.GetId(), parts[0])
	}
	meta := n.GetMetadata().GetFields()
	out := translate.Node{
		ID: n.GetId(), Inline: inline,
		Namespace:    meta[MetaNamespace].GetStringValue(),
		Account:      meta[MetaAccount].GetStringValue(),
		Forward:      meta[MetaForward].GetStringValue(),
		OnDemand:     meta[ondemand.Metadata].GetStringValue() != "",
		Ends:         meta[wire.EndsMetadata].GetStringValue() != "",
		EndsTunnels:  meta[wire.EndsMetadata].GetStringValue() == wire.EndsTunnels,
		Fetch:        meta[ondemand.FetchMetadata].GetStringValue(),
		FetchExit:    meta[ondemand.ExitMetadata].GetStringValue() != "",
		Named:        meta[ondemand.NamedMetadata].GetStringValue() != "",
		NamesWait:    meta[wire.NamesWaitMetadata].GetStringValue() != "",
		Reconnects:   meta[wire.ReconnectsMetadata].GetStringValue() != "",
		OwnTables:    meta[ambient.OwnMetadata].GetStringValue() != "" && !inline,
		DecidedTag:   meta[wire.DecidedMetadata].GetStringValue() != "",
		Kubelet:      meta[ambient.KubeletMetadata].GetStringValue() != "",
		Labels:       map[string]string{},
		Certificates: meta[ondemand.CertificatesMetadata].GetStringValue() != "",
		Sessions:     uint32(meta[netcap.SessionsMetadata].GetNumberValue()),
	}
	out.Topology, _ = topologyOf(n)
	of := NamespaceOf(out.ID)
	switch {
	case out.Namespace == "":
		out.Namespace = of
	case of != "" && of != out.Namespace:
		return translate.Node{}, fmt.Errorf("node id %q: its namespace is %q, the metadata's %s is %q", out.ID, of, MetaNamespace, out.Namespace)
	}
	if out.Namespace == "" {
		return translate.Node{}, fmt.Errorf("node id %q: no namespace; want TYPE~IP~POD.NAMESPACE~DOMAIN, or %s in the metadata", out.ID, MetaNamespace)
	}
	for k, v := range meta[MetaLabels].GetStructValue().GetFields() {
		out.Labels[k] = v.GetStringValue()
	}
	if group := meta[health.GroupMetadata].GetStringValue(); group != "" && parts[0] == "sidecar" {
		out.Machine = machineOf(n, group, parts, out.Namespace)
	}
	for _, ip := range strings.Split(meta["INSTANCE_IPS"].GetStringValue(), ",") {
		if a, err := netip.ParseAddr(strings.TrimSpace(ip)); err == nil && a.Is6() && !a.Is4In6() && !a.IsLinkLocalUnicast() {
			out.IPv6 = true
		}
	}
	if out.IsAmbient() && meta[ambient.IPv6Metadata].GetStringValue() != "" { // whatever its own address is
		out.IPv6 = true
	}
	return out, nil
}

// machineOf is what a machine's proxy says of it, whose id has these parts.
func machineOf(n *core.Node, group string, parts []string, namespace string) *machine.Proxy {
	address, _ := netip.ParseAddr(parts[1]) // one that is none is refused by whoever judges it
	at := n.GetLocality()
	return &machine.Proxy{
		Group: group, Host: strings.TrimSuffix(parts[2], "."+namespace), Address: address.Unmap(),
		Network:  n.GetMetadata().GetFields()[MetaNetwork].GetStringValue(),
		Locality: strings.TrimRight(strings.Join([]string{at.GetRegion(), at.GetZone(), at.GetSubZone()}, "/"), "/"),
	}
}

// podOf gives POD.NAMESPACE of a node id, "" when the id is not of that form.
func podOf(id string) string { return partOf(id, 2) }

// addressOf gives IP of a node id, likewise.
func addressOf(id string) string { return partOf(id, 1) }

func partOf(id string, i int) string {
	parts := strings.Split(id, "~")
	if len(parts) != 4 {
		return ""
	}
	return parts[i]
}

// NamespaceOf gives the namespace in a node id, "" when the id is not of that form.
func NamespaceOf(id string) string {
	_, namespace := wire.PodOfNode(id)
	return namespace
}
