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
		moved := false
		for _, age := range ages {
			moved = c.lookAgain(node+age) || moved
		}
		if !moved {
			delete(on, node)
		}
	}
	if len(on) == 0 {
		return
	}
	for _, st := range c.streams {
		if on[st.proxy.On] {
			c.place(st) // before it hears of pods of a namespace, it has that one's policies and tables
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

// What is behind a node's name among what agents are told about, where the agent lets no kubelet connect to pods, or knows no templates of namespaces either.
const (
	unableAgent = "~kubelet"
	olderAgent  = "~"
)

// ages are all that may be there.
var ages = []string{"", unableAgent, olderAgent}

// ageOf is it for an agent.
func ageOf(n translate.Node) string {
	switch {
	case !n.OwnTables:
		return olderAgent
	case !n.Kubelet:
		return unableAgent
	}
	return ""
}

// podsOn are the pods of a node, as its agent is told of them.
func (c *Cache) podsOn(about string) []ambient.Pod {
	node, age, _ := strings.Cut(about, olderAgent) // no node's name has it
	if node == "" || c.on == nil {
		return nil
	}
	pods := c.on(node)
	if node == about {
		return pods
	}
	out := make([]ambient.Pod, len(pods))
	for i, p := range pods {
		if out[i] = p.ForUnable(); age == "" {
			out[i] = out[i].ForOlder()
		}
	}
	return out
}

// lookAtPods brings what is known of all nodes' pods up to date.
func (c *Cache) lookAtPods() {
	moved := map[string]bool{}
	for about := range c.pods {
		moved[about] = about != "" && c.lookAgain(about)
	}
	for _, st := range c.streams {
		if st.proxy.IsAmbient() && moved[st.about()] {
			c.place(st)
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

// lookAgain does it for those who are told of one node, and says whether anything changed.
func (c *Cache) lookAgain(about string) bool {
	cl := c.pods[about]
	if cl == nil {
		return false
	}
	pods := c.podsOn(about)
	view, refs := translate.UpdatePods(cl.view, cl.pods, pods)
	if cl.view, cl.pods = view, pods; len(refs) > 0 {
		cl.note(refs)
	}
	return len(refs) > 0
}
