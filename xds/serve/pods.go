package serve

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/translate"
)

// FollowPods says who knows which pods of a node are in the mesh. Call it before the cache is used; it is called while the cache is
// held, and must not wait.
func (c *Cache) FollowPods(on func(node string) []ambient.Pod) { c.on = on }

// PodsChanged tells that pods came, went or changed on these nodes; the proxies there learn of it.
func (c *Cache) PodsChanged(on map[string]bool) {
	if len(on) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for node := range on {
		if cl := c.pods[node]; cl == nil || !c.lookAtPodsOn(node, cl) {
			delete(on, node)
		}
	}
	if len(on) == 0 {
		return
	}
	for _, st := range c.streams {
		if on[st.proxy.On] {
			c.police(st) // before it hears of pods of a namespace, it has that one's policies
			st.push()
			c.heardFrom(st)
		}
	}
}

// putOn puts a stream among those that are told of a node's pods.
func (c *Cache) putOn(st *stream) {
	if st.pods != nil {
		return
	}
	about := st.about()
	cl := c.pods[about]
	if cl == nil {
		cl = c.tells(st)
		c.pods[about] = cl
	}
	cl.users++
	st.pods = cl
}

func (c *Cache) leavePods(st *stream) {
	if st.pods.users--; st.pods.users == 0 {
		delete(c.pods, st.about())
	}
}

func (c *Cache) podsOn(node string) []ambient.Pod {
	if node == "" || c.on == nil {
		return nil
	}
	return c.on(node)
}

// lookAtPods brings what is known of all nodes' pods up to date.
func (c *Cache) lookAtPods() {
	moved := map[string]bool{}
	for node, cl := range c.pods {
		moved[node] = node != "" && c.lookAtPodsOn(node, cl)
	}
	for _, st := range c.streams {
		if st.proxy.IsAmbient() && moved[st.proxy.On] {
			c.police(st)
		}
	}
}

// namespacesIn are those of pods in the mesh, in order.
func namespacesIn(pods []ambient.Pod) string {
	var out []string
	for _, p := range pods {
		if p.In {
			out = append(out, p.Namespace)
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

// lookAtPodsOn does it for one node, and says whether anything changed.
func (c *Cache) lookAtPodsOn(node string, cl *class) bool {
	pods := c.podsOn(node)
	view, refs := translate.UpdatePods(cl.view, cl.pods, pods)
	if cl.view, cl.pods = view, pods; len(refs) > 0 {
		cl.note(refs)
	}
	return len(refs) > 0
}
