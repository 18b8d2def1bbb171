package record

import (
	"maps"
	"slices"
	"strings"
)

// MaxLabels is how many bytes the labels of one workload take at most.
const MaxLabels = 1024

// ofTheController are labels that Kubernetes' controllers number their pods with: nobody selects by them, and each
// would make a workload of its own of every rollout.
var ofTheController = []string{
	"pod-template-hash", "controller-revision-hash", "pod-template-generation", "controller-uid", "batch.kubernetes.io/controller-uid",
}

// Labels writes a pod's labels as "key=value,key=value", in the order of the keys, without those that controllers number pods
// with. Pairs that do not fit into MaxLabels are left out whole, and cut says so: half a pair would be another label.
func Labels(labels map[string]string) (text string, cut bool) {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if slices.Contains(ofTheController, k) {
			continue
		}
		v := labels[k]
		if k == "" || strings.ContainsAny(k, "=,") || strings.ContainsAny(v, "=,") || b.Len()+len(k)+len(v)+2 > MaxLabels {
			cut = true // the API server takes no such label; a file might have one
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(k)
		b.WriteByte('=')
		b.WriteString(v)
	}
	return b.String(), cut
}
