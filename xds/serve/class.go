package serve

import (
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/translate"
)

// history is how many steps back a class remembers what changed. A stream that is further behind is compared
// resource by resource.
const history = 256

// class is the current view of one kind of proxies and the last steps that led to it.
type class struct {
	view    *translate.View
	step    uint64            // of view
	steps   [][]translate.Ref // steps[i] led to step - len(steps) + i + 1
	streams int
}

// advance makes the next view.
func (c *class) advance(t *translate.Translator, s *registry.Snapshot, changed registry.Changed) bool {
	view, refs := t.Update(c.view, s, changed)
	c.view = view
	if len(refs) == 0 {
		return false
	}
	c.step++
	c.steps = append(c.steps, refs)
	if len(c.steps) > history {
		c.steps = append(c.steps[:0:0], c.steps[len(c.steps)-history/2:]...)
	}
	return true
}

// mark is what a stream was sent of a type.
type mark struct {
	class *class
	view  *translate.View
	step  uint64
}

// since gives the names of a type that may differ between what a stream has and the current view.
func (c *class) since(m *mark, t translate.Type) map[string]bool {
	names := map[string]bool{}
	if m.class == c && m.step+uint64(len(c.steps)) >= c.step {
		for _, refs := range c.steps[uint64(len(c.steps))-(c.step-m.step):] {
			for _, r := range refs {
				if r.Type == t {
					names[r.Name] = true
				}
			}
		}
		return names
	}
	m.view.Walk(t, func(r *translate.Resource) bool {
		if now, ok := c.view.Get(t, r.Name); !ok || now.Version != r.Version {
			names[r.Name] = true
		}
		return true
	})
	c.view.Walk(t, func(r *translate.Resource) bool {
		if was, ok := m.view.Get(t, r.Name); !ok || was.Version != r.Version {
			names[r.Name] = true
		}
		return true
	})
	return names
}
