package registry

import (
	"cmp"
	"maps"
	"slices"
	"time"

	telemetry "istio.io/api/telemetry/v1alpha1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// Telemetry is what a Telemetry object says of the records of what comes to pods.
type Telemetry struct {
	Key       config.Key
	Created   time.Time
	Selector  map[string]string // of workloads in its namespace; nil for all
	Waypoints []string          // of its namespace, which it is for alone; nil for all
	Records   string            // mesh.MeshOff or mesh.MeshAll; "" where it says nothing of them
}

// wide says whether it is for all of its namespace.
func (t *Telemetry) wide() bool { return t.Selector == nil && t.Waypoints == nil }

// Recorded is what is recorded of what comes to workloads of a namespace with these labels, as the mesh's setting has it, where a Telemetry says
// otherwise than that; "" where none does. The root namespace's is the mesh's, a namespace's comes before it, and a workload's before that; of several
// at one level the oldest counts.
func (s *Snapshot) Recorded(ns string, labels map[string]string) string {
	return s.recorded(ns, func(t *Telemetry) bool { return t.Selector != nil && t.Waypoints == nil && selects(t.Selector, labels) })
}

// RecordedAt is Recorded of a waypoint.
func (s *Snapshot) RecordedAt(waypoint Ref) string {
	return s.recorded(waypoint.Namespace, func(t *Telemetry) bool { return slices.Contains(t.Waypoints, waypoint.Name) })
}

func (s *Snapshot) recorded(ns string, own func(*Telemetry) bool) (word string) {
	take := func(list []*Telemetry, which func(*Telemetry) bool) {
		if i := slices.IndexFunc(list, func(t *Telemetry) bool { return t.Records != "" && which(t) }); i >= 0 {
			word = list[i].Records
		}
	}
	take(s.telemetries[s.Mesh.RootNamespace], (*Telemetry).wide)
	take(s.telemetries[ns], (*Telemetry).wide)
	take(s.telemetries[ns], own)
	if word == s.Mesh.Audit.Mesh {
		return ""
	}
	return word
}

func fromTelemetry(o *config.Object, spec *telemetry.Telemetry) *Telemetry {
	t := &Telemetry{Key: o.Key, Created: o.Created, Records: RecordsBy(spec)}
	if labels := spec.GetSelector().GetMatchLabels(); len(labels) > 0 {
		t.Selector = labels
	}
	refs := spec.GetTargetRefs()
	if one := spec.GetTargetRef(); one != nil { // deprecated, and may still be written
		refs = append(slices.Clone(refs), one)
	}
	for _, r := range refs {
		if t.Waypoints == nil {
			t.Waypoints = []string{}
		}
		if r.GetKind() == "Gateway" && r.GetGroup() == gatewayv1.GroupName {
			t.Waypoints = append(t.Waypoints, r.GetName())
		}
	}
	return t
}

// RecordsBy is what a Telemetry says of what comes to its workloads: all of it is recorded (mesh.MeshAll), or none (mesh.MeshOff); "" where it says nothing of that. What is said of what they ask for themselves counts where
// that arrives, and an expression says neither.
func RecordsBy(spec *telemetry.Telemetry) (word string) {
	for _, l := range spec.GetAccessLogging() {
		switch {
		case l.GetMatch().GetMode() == telemetry.WorkloadMode_CLIENT || l.GetFilter().GetExpression() != "":
		case !l.GetDisabled().GetValue():
			return mesh.MeshAll
		default:
			word = mesh.MeshOff
		}
	}
	return word
}

// setTelemetry replaces or removes a Telemetry.
func (b *batch) setTelemetry(c config.Change) {
	b.next.telemetries = afterChange(b.next.telemetries, c, func(o *config.Object) *Telemetry {
		return fromTelemetry(o, o.Spec.(*telemetry.Telemetry))
	}, func(t *Telemetry) config.Key { return t.Key }, func(x, y *Telemetry) int { return cmp.Or(x.Created.Compare(y.Created), x.Key.Compare(y.Key)) })
	b.recorded[c.Key.Namespace] = true
}

// settleTelemetries says in which namespaces what comes to workloads is otherwise, beside those with other PeerAuthentications.
func (b *batch) settleTelemetries() {
	if len(b.recorded) == 0 {
		return
	}
	all := maps.Clone(b.recorded)
	for _, ns := range b.changed.Inbound {
		all[ns] = true
	}
	b.changed.Inbound = slices.Sorted(maps.Keys(all))
}
