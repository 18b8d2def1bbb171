package decode

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
)

// Stamp gives an object its Hash and its Revision.
func Stamp(o *config.Object) {
	o.Hash, o.Revision = Hash(o), revision(o)
}

// revisionBytes is how much of the SHA-256 is kept: whoever may write an object shall not find two versions of it that a
// record cannot tell apart.
const revisionBytes = 16

// counted are the beginnings of the annotations that say something about traffic. Others are notes, and change nothing.
var counted = []string{"egress.sallyport.io/", "networking.istio.io/", "traffic.istio.io/", "istio.io/dry-run"}

// revision is the content hash of what an object says: its kind, its names, its spec and the annotations that count. What a server
// or a tool notes on it does not, so an object that is only labelled, annotated or made again keeps its revision.
func revision(o *config.Object) string {
	var spec []byte
	switch s := o.Spec.(type) {
	case *corev1.Service:
		spec, _ = s.Spec.Marshal() // a spec that was read can be written
	case *corev1.Pod, *corev1.Secret, *corev1.ConfigMap, *corev1.Node, *corev1.Namespace, nil:
		return ""
	default:
		if o.Kind == config.KindEndpointSlice {
			return ""
		}
		spec = encode(s)
	}
	var b []byte
	add := func(text string) {
		b = append(binary.LittleEndian.AppendUint64(b, uint64(len(text))), text...)
	}
	add(string(o.Kind))
	add(o.Namespace)
	add(o.Name)
	for _, k := range slices.Sorted(maps.Keys(o.Annotations)) {
		if slices.ContainsFunc(counted, func(p string) bool { return strings.HasPrefix(k, p) }) {
			add(k)
			add(o.Annotations[k])
		}
	}
	add(string(spec))
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:revisionBytes])
}
