package suggest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// world is the configuration in force, and what it is with suggestions applied.
type world struct {
	Config
	now     time.Time
	objects map[config.Key]*config.Object
	result  *Result
}

func newWorld(c Config, r *Result, now time.Time) *world {
	return &world{Config: c, now: now, objects: map[config.Key]*config.Object{}, result: r}
}

// named makes a world that knows the objects by their names.
func (w *world) named() *world {
	for _, x := range w.Objects {
		if x.Object != nil {
			w.objects[x.Key] = x.Object
		}
	}
	return w
}

// registered gives a ServiceEntry by its name; nil where there is none.
func (w *world) registered(key config.Key) *networking.ServiceEntry {
	if len(w.objects) == 0 { // few who ask what waits need them
		w.named()
	}
	o := w.objects[key]
	if o == nil {
		return nil
	}
	spec, _ := o.Spec.(*networking.ServiceEntry)
	return spec
}

func (w *world) decide(s *registry.Snapshot, who policy.Workload, to policy.Destination) policy.Verdict {
	return w.Decide(s, who, to)
}

// with gives what there is with changes applied.
func (w *world) with(changes []Change, more ...*config.Object) *registry.Snapshot {
	var forth []config.Change
	for _, c := range changes {
		forth = append(forth, config.Change{Key: c.Key(), Object: c.After})
	}
	for _, o := range more {
		forth = append(forth, config.Change{Key: o.Key, Object: o})
	}
	return w.Registry.Would(forth...)
}

// probe is a policy that makes Decide say what policies are asked, and denies nothing.
func (w *world) probe() *config.Object {
	return w.object(config.Key{Kind: config.KindEgressPolicy, Namespace: w.Snapshot.Mesh.RootNamespace, Name: "~probe"}, nil,
		&v1alpha1.EgressPolicy{Mode: v1alpha1.Mode_Observe, Default: v1alpha1.Action_Allow})
}

// object makes an object; of one that is there it keeps what is not its spec.
func (w *world) object(key config.Key, was *config.Object, spec any) *config.Object {
	o := &config.Object{Key: key, Origin: "suggested"}
	if was != nil {
		copied := *was
		o = &copied
	}
	o.Spec = spec
	decode.Stamp(o)
	return o
}

// Refuses says why admission would refuse an object; "" if it takes it.
func Refuses(o *config.Object) string {
	for _, f := range admission.Validate(*o) {
		if f.Severity == admission.Error {
			return f.What()
		}
	}
	return ""
}

// free gives a name that no object of the kind and namespace has: the one that is wanted, or with a number. taken are those that this run gave.
func (w *world) free(kind config.Kind, namespace, wanted string, taken map[config.Key]bool) config.Key {
	wanted = strings.Trim(wanted[:min(len(wanted), 240)], "-.")
	for n := 1; ; n++ {
		key := config.Key{Kind: kind, Namespace: namespace, Name: wanted}
		if n > 1 {
			key.Name = fmt.Sprintf("%s-%d", wanted, n)
		}
		if w.objects[key] == nil && !taken[key] {
			taken[key] = true
			return key
		}
	}
}

// keys gives the objects of a kind that are there, in order.
func (w *world) keys(kind config.Kind) []config.Key {
	var out []config.Key
	for key := range w.objects {
		if key.Kind == kind {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, config.Key.Compare)
	return out
}
