package serve

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// history is how many changed resources a class remembers, step by step. A stream that is further behind is compared
// resource by resource.
const history = 4096

// class is the current view of one kind of proxies and the last steps that led to it.
type class struct {
	id     uint64 // never used again
	over   *class // of whose view this one's is what differs; nil for a view that stands alone
	view   *translate.View
	police translate.PolicyClass // of a class of policies, which is apart
	pods   []ambient.Pod         // of a class of a node's pods: what the view says
	probe  []byte                // of a class of a group's machines: likewise
	step   uint64                // of view
	steps  [][]resource.Ref      // steps[i] led to step - len(steps) + i + 1
	refs   int                   // in steps
	users  int                   // streams, and classes over it

	changed [typeCount]uint64              // the step in which a type last changed
	whole   [typeCount]*payload            // everything of a type, while it is asked for
	since   map[behind]difference          // what streams lack that were sent the same
	all     [typeCount]*listing            // for state-of-the-world streams, once there is one
	few     map[string]*payload            // of few resources that streams ask for by name, by these
	mixed   map[mixture]*resource.Resource // translate.InTransition
	leaving map[string]time.Time           // of a waypoint's: which hosts stay in the view that are gone, and until when
	turned  map[string]uint64              // of nodes': clusters of hosts that go by another waypoint now, or by none any more, and since which step
}

// behind says where streams are that lack the same.
type behind struct {
	t     resource.Type
	class uint64
	step  uint64
}

// position is what a stream was sent of a type: nothing yet, when there is no view.
type position struct {
	class uint64
	step  uint64
	view  *translate.View
}

// now is the position of a stream that has everything.
func (c *class) now() position { return position{class: c.id, step: c.step, view: c.view} }

// difference is what leads from a position to the current view.
type difference struct {
	payload *payload // nil when nothing is new
	there   []string // names of what is in the payload
	gone    []string
}

// advance makes the next view. A class under it has its own by then, and differ is what changed in that.
func (c *class) advance(t *translate.Translator, s *registry.Snapshot, changed registry.Changed, differ []resource.Ref) []resource.Ref {
	var refs []resource.Ref
	switch {
	case c.over != nil:
		c.view, refs = t.UpdateOver(c.view, c.over.view, differ, s, changed)
	case c.view.Class.Kind == translate.Waypoint:
		c.view, refs = t.UpdateBut(c.view, s, changed, c.stays)
	default:
		c.view, refs = t.Update(c.view, s, changed)
	}
	if len(refs) > 0 {
		c.note(refs)
	}
	return refs
}

// names says whether a name for DNS is among what has changed, and is there.
func (c *class) names(refs []resource.Ref) bool {
	return slices.ContainsFunc(refs, func(r resource.Ref) bool {
		if r.Type != resource.Name {
			return false
		}
		_, there := c.view.Get(r.Type, r.Name)
		return there
	})
}

// note remembers a step that led to the view.
func (c *class) note(refs []resource.Ref) {
	c.step++
	c.steps, c.refs = append(c.steps, refs), c.refs+len(refs)
	forget := 0
	for ; c.refs > history && forget < len(c.steps)-1; forget++ {
		c.refs -= len(c.steps[forget])
	}
	if forget > 0 {
		c.steps = slices.Clone(c.steps[forget:])
	}
	for _, r := range refs {
		c.changed[r.Type] = c.step
		c.whole[r.Type], c.all[r.Type] = nil, nil
	}
	c.since, c.few, c.mixed = nil, nil, nil
}

const (
	// mostFew is of how many resources a payload is kept, for the next stream that is sent the same: those of a change.
	mostFew = 8
	// mostKept is how many such payloads are kept.
	mostKept = 64
)

// pack packs resources for one stream, once for all that are sent the same between two steps.
func (c *class) pack(list []*resource.Resource) *payload {
	if len(list) > mostFew {
		return pack(list)
	}
	var key strings.Builder
	for _, r := range list {
		key.WriteString(r.Version + string(rune(r.Type)) + r.Name + "\n")
	}
	if p := c.few[key.String()]; p != nil {
		return p
	}
	if c.few == nil || len(c.few) >= mostKept {
		c.few = map[string]*payload{}
	}
	p := pack(list)
	c.few[key.String()] = p
	return p
}

// mixture is what translate.InTransition is made of, by versions.
type mixture struct {
	before, now string
	sameAsked   bool
}

// between is made once for all streams whose Envoy has the same.
func (c *class) between(before, now *resource.Resource, sameAsked bool) *resource.Resource {
	both := mixture{before.Version, now.Version, sameAsked}
	b, ok := c.mixed[both]
	if !ok {
		if c.mixed == nil {
			c.mixed = map[mixture]*resource.Resource{}
		}
		b = translate.InTransition(before, now, sameAsked)
		c.mixed[both] = b
	}
	return b
}

// has says whether a stream at that position has everything of a type.
func (c *class) has(m position, t resource.Type) bool {
	return m.class == c.id && m.step >= c.changed[t]
}

// everything packs all resources of a type, or gives what was packed before.
func (c *class) everything(t resource.Type) *payload {
	if c.whole[t] == nil && !c.view.Alone() {
		c.whole[t] = c.over.everything(t).but(c.view.Own(t), func(name string) (*resource.Resource, bool) { return c.view.Get(t, name) })
	}
	if c.whole[t] == nil {
		list := make([]*resource.Resource, 0, c.view.Len(t))
		c.view.Walk(t, func(r *resource.Resource) bool { list = append(list, r); return true })
		c.whole[t] = pack(list)
	}
	return c.whole[t]
}

// unlike gives the names of a type that differ between what a client says it has (name → version) and the view.
func (c *class) unlike(known map[string]string, t resource.Type) map[string]bool {
	names := map[string]bool{}
	c.view.Walk(t, func(r *resource.Resource) bool {
		if known[r.Name] != r.Version {
			names[r.Name] = true
		}
		return true
	})
	for name := range known {
		if _, ok := c.view.Get(t, name); !ok {
			names[name] = true
		}
	}
	return names
}

// difference finds what a stream lacks of a type. Streams that were sent the same share the answer.
func (c *class) difference(m position, t resource.Type) difference {
	at := behind{t, m.class, m.step}
	d, ok := c.since[at]
	if !ok {
		if c.since == nil {
			c.since = map[behind]difference{}
		}
		d = c.compare(c.namesSince(m, t), t)
		c.since[at] = d
	}
	return d
}

// compare looks names up in the current view.
func (c *class) compare(names map[string]bool, t resource.Type) (d difference) {
	var list []*resource.Resource
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if r, ok := c.view.Get(t, name); ok {
			list = append(list, r)
			d.there = append(d.there, name)
		} else {
			d.gone = append(d.gone, name)
		}
	}
	if len(list) > 0 {
		d.payload = pack(list)
	}
	return d
}

// follows says whether it is remembered what has changed since a position.
func (c *class) follows(m position) bool {
	return m.class == c.id && m.step+uint64(len(c.steps)) >= c.step
}

// namesSince gives the names of a type that may differ between what a stream has and the current view.
func (c *class) namesSince(m position, t resource.Type) map[string]bool {
	names := map[string]bool{}
	if c.follows(m) {
		for _, refs := range c.steps[uint64(len(c.steps))-(c.step-m.step):] {
			for _, r := range refs {
				if r.Type == t {
					names[r.Name] = true
				}
			}
		}
		return names
	}
	m.view.Walk(t, func(r *resource.Resource) bool {
		if now, ok := c.view.Get(t, r.Name); !ok || now.Version != r.Version {
			names[r.Name] = true
		}
		return true
	})
	c.view.Walk(t, func(r *resource.Resource) bool {
		if was, ok := m.view.Get(t, r.Name); !ok || was.Version != r.Version {
			names[r.Name] = true
		}
		return true
	})
	return names
}
