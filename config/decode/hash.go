package decode

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/config"
)

// Hash is the content hash of an object: of everything but its Origin and its Hash, and but what a server writes
// into the metadata at every update (resourceVersion, generation, managedFields). Equal objects have equal hashes,
// in every process of the same version.
func Hash(o *config.Object) uint64 {
	d := digest{xxhash.New()}
	d.text(string(o.Kind), o.Namespace, o.Name)
	d.texts(o.Labels)
	d.texts(o.Annotations)
	var created int64
	if !o.Created.IsZero() {
		created = o.Created.UnixNano()
	}
	d.number(uint64(created))
	d.bytes(encode(o.Spec))
	if o.Out != "" {
		d.text(o.Out)
	}
	return d.Sum64()
}

// encode gives a spec's deterministic bytes.
func encode(spec any) []byte {
	var b []byte
	var err error
	switch s := spec.(type) {
	case proto.Message:
		b, err = proto.MarshalOptions{Deterministic: true}.Marshal(s)
	case *corev1.Service:
		c := *s
		trim(&c.ObjectMeta)
		b, err = c.Marshal()
	case *corev1.Pod:
		c := *s
		trim(&c.ObjectMeta)
		b, err = c.Marshal()
	case *corev1.Namespace:
		c := *s
		trim(&c.ObjectMeta)
		b, err = c.Marshal()
	case *corev1.Secret:
		c := *s
		trim(&c.ObjectMeta)
		b, err = c.Marshal()
	case *corev1.ConfigMap:
		c := *s
		trim(&c.ObjectMeta)
		b, err = c.Marshal()
	case *discoveryv1.EndpointSlice:
		c := *s
		trim(&c.ObjectMeta)
		b, err = c.Marshal()
	default:
		if !isGatewaySpec(spec) {
			err = fmt.Errorf("no such spec: %T", spec)
			break
		}
		b, err = json.Marshal(spec) // maps in order of their keys
	}
	if err != nil {
		// Neither kind of message can fail to be written once it was read; a hash of the reason still differs
		// from every object's.
		return []byte(err.Error())
	}
	return b
}

// trim drops from a copy's metadata what Hash leaves out.
func trim(m *metav1.ObjectMeta) {
	m.ResourceVersion, m.Generation, m.ManagedFields = "", 0, nil
}

// digest writes values with their lengths, so that no two lists of values give the same bytes.
type digest struct{ *xxhash.Digest }

func (d digest) number(n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	d.Write(b[:])
}

func (d digest) bytes(b []byte) {
	d.number(uint64(len(b)))
	d.Write(b)
}

func (d digest) text(values ...string) {
	for _, s := range values {
		d.number(uint64(len(s)))
		d.WriteString(s)
	}
}

func (d digest) texts(m map[string]string) {
	d.number(uint64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		d.text(k, m[k])
	}
}

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
