package locality

import (
	"strings"

	"github.com/sallyport/sallyport/config/localities"
)

// The labels that stand for where something is, in settings and on Nodes.
const (
	LabelRegion  = localities.LabelRegion
	LabelZone    = localities.LabelZone
	LabelSubzone = localities.LabelSubzone
	LabelNetwork = "topology.istio.io/network"
	LabelCluster = "topology.istio.io/cluster"
	LabelHost    = "kubernetes.io/hostname"
	// LabelPod is a pod's own, which says it instead of its Node: "REGION.ZONE.SUBZONE" or with "/".
	LabelPod = "istio-locality"
)

// Split reads "REGION/ZONE/SUBZONE", of which the end may be missing.
func Split(locality string) (region, zone, subzone string) {
	region, rest, _ := strings.Cut(locality, "/")
	zone, subzone, _ = strings.Cut(rest, "/")
	return region, zone, subzone
}

// Join writes it; "" where nothing is known. What is known of a part without the one before stays in its place.
func Join(region, zone, subzone string) string {
	return strings.TrimRight(region+"/"+zone+"/"+subzone, "/")
}

// OfLabels is where something with these labels says that it is; "" where it does not. As in Istio the label has dots where a label may not have
// slashes.
func OfLabels(labels map[string]string) string {
	text := labels[LabelPod]
	if text != "" && !strings.Contains(text, "/") {
		text = strings.ReplaceAll(text, ".", "/")
	}
	return text
}

// OfNode is where a Node with these labels is.
func OfNode(labels map[string]string) string {
	return Join(labels[LabelRegion], labels[LabelZone], labels[LabelSubzone])
}

// Place is where something is.
type Place struct{ Locality, Node, Network, Cluster string }

// Label is what stands for a part of the place under a label's key; "" under others.
func (p Place) Label(key string) string {
	region, zone, subzone := Split(p.Locality)
	switch key {
	case LabelRegion:
		return region
	case LabelZone:
		return zone
	case LabelSubzone:
		return subzone
	case LabelNetwork:
		return p.Network
	case LabelCluster:
		return p.Cluster
	case LabelHost:
		return p.Node
	default:
		return ""
	}
}

// distance is how far two localities are from each other: 0 is the same subzone, 1 the same zone, 2 the same region, 3 another one.
func distance(a, b string) uint32 {
	aRegion, aZone, aSub := Split(a)
	bRegion, bZone, bSub := Split(b)
	switch {
	case aRegion != bRegion:
		return 3
	case aZone != bZone:
		return 2
	case aSub != bSub:
		return 1
	default:
		return 0
	}
}
