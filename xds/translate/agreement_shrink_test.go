package translate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// world is the objects and settings that requests are tried in.
type world struct {
	objects map[config.Key]*config.Object
	mesh    mesh.Config
	rows    int // what a VirtualService may come to for hosts below its patterns; 0 is the usual
}

// envoys are its proxies.
func (w world) envoys(d *decoder) *envoys {
	settings := w.mesh
	var changes []config.Change
	for _, k := range w.keys() {
		changes = append(changes, config.Change{Key: k, Object: w.objects[k]})
	}
	r := registry.New(&settings)
	if w.rows > 0 {
		r.Bounded(w.rows)
	}
	s, _ := r.Apply(changes)
	return envoysOf(d, s, w.objects)
}

func (w world) keys() []config.Key {
	keys := make([]config.Key, 0, len(w.objects))
	for k := range w.objects {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, config.Key.Compare)
	return keys
}

// disagreement is a request about which Decide and the proxies say different things.
type disagreement struct {
	world     world
	x         tried
	want, got observed
	steps     []string
	err       error
}

// shrink takes out what does not matter, as long as the two disagree.
func (d disagreement) shrink(disagree func(*envoys, world, tried) (disagreement, bool)) disagreement {
	for again := true; again; {
		again = false
		for _, k := range d.world.keys() {
			less := world{map[config.Key]*config.Object{}, d.world.mesh, d.world.rows}
			for other, o := range d.world.objects {
				if other != k {
					less.objects[other] = o
				}
			}
			if found, differ := disagree(less.envoys(newDecoder()), less, d.x); differ {
				d, again = found, true
			}
		}
	}
	return d
}

// report is what a reader needs to see why.
func (d disagreement) report(t *testing.T, seed uint64) {
	t.Helper()
	var b strings.Builder
	for _, k := range d.world.keys() {
		b.WriteString(written(d.world.objects[k]))
	}
	m := d.world.mesh
	t.Errorf("seed %d, %s\n  Decide: %s\n  Envoy:  %s\n  error:  %v\n%s\nmesh: allowAny %v, dynamicDNS %v, exports %+v, clusterNetworks %v, dns %+v\n%s",
		seed, d.x, d.want, d.got, d.err, strings.Join(d.steps, "\n  "), m.OutboundAllowAny, m.OutboundDynamicDNS, m.Exports, m.ClusterNetworks, m.DNS, b.String())
}

// written is an object as YAML.
func written(o *config.Object) string {
	head := fmt.Sprintf("---\nkind: %s\nmetadata: {name: %s, namespace: %s, labels: %v, annotations: %v, creationTimestamp: %v}\n", o.Key.Kind, o.Key.Name, o.Key.Namespace, o.Labels, o.Annotations, o.Created.Unix())
	var text []byte
	var err error
	if m, ok := o.Spec.(proto.Message); ok && slices.ContainsFunc([]string{"istio.", "sallyport."}, func(of string) bool { return strings.HasPrefix(string(m.ProtoReflect().Descriptor().FullName()), of) }) {
		if text, err = protojson.Marshal(m); err == nil {
			text, err = yaml.JSONToYAML(text)
		}
	} else {
		text, err = yaml.Marshal(o.Spec)
	}
	if err != nil {
		return head + err.Error() + "\n"
	}
	return head + "spec:\n  " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n  ") + "\n"
}
