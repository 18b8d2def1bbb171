package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	gcpstream "github.com/envoyproxy/go-control-plane/pkg/server/stream/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/machine"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// Cache holds the views of all classes that somebody is connected for, and the streams. It is go-control-plane's
// cache.Cache.
type Cache struct {
	mu         sync.Mutex
	snapshot   *registry.Snapshot
	translator *translate.Translator
	classes    map[translate.Class]*class
	policed    map[translate.PolicyClass]*class // what they are governed by, which is few kinds beside that
	pods       map[string]*class                // of the nodes whose proxies are connected, by their names (olderAgent), and of machines' groups; "" is of all other proxies
	on         func(node string) []ambient.Pod
	probe      func(group config.Key) []byte
	labels     func(machine.Proxy) (map[string]string, bool) // nil where nobody follows machines
	made       uint64                                        // classes so far
	coming     map[string]*coming                            // hosts that come behind a waypoint
	streams    map[*core.Node]*stream
	asked      names // by name, on delta streams
	names      *holds
	rows       *holds      // of nodes, by which something goes to waypoints
	rests      *time.Timer // nil when nothing rests
	restsEnd   time.Time   // when it ends
	packed     int         // payloads of everything that are kept
	free       func()      // gives memory back
	freed      time.Time   // when it was last given back
	frees      bool        // memory is given back later
	settles    *time.Timer // until what making views took is given back; nil before the first one
	settled    time.Time   // when it last was
}

// NewCache makes a cache that serves the snapshot.
func NewCache(s *registry.Snapshot) *Cache {
	return &Cache{
		snapshot:   s,
		translator: translate.NewTranslator(),
		classes:    map[translate.Class]*class{},
		policed:    map[translate.PolicyClass]*class{},
		pods:       map[string]*class{},
		coming:     map[string]*coming{},
		streams:    map[*core.Node]*stream{},
		names:      newHolds(resource.Name, nameTime),
		rows:       newHolds(resource.VirtualHost, frontTime),
		free:       debug.FreeOSMemory,
	}
}

// GiveBackBy says how memory is given back after bursts; otherwise it is the heap's. Call it before anybody is served.
func (c *Cache) GiveBackBy(free func()) { c.free = free }

// Publish moves everybody on to a snapshot. The cost is that of what changed, once for each class, and a small
// message for each stream. It is called by one goroutine at a time.
func (c *Cache) Publish(s *registry.Snapshot, changed registry.Changed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.snapshot
	c.snapshot = s
	c.translator.Forget(changed)
	named := c.advance(s, changed, c.turn(was, changed))
	for _, cl := range c.policed {
		if !cl.police.Follows(changed) {
			continue
		}
		view, refs := translate.UpdatePolicies(cl.view, s, cl.police, changed)
		if cl.view = view; len(refs) > 0 {
			cl.note(refs)
		}
	}
	differs := changed.Mesh || changed.Networks || len(changed.Scopes) > 0 || changed.Views || changed.Kube || changed.Gateways || len(changed.Inbound) > 0 || changed.Waypoints
	reclassify := differs || len(changed.Policies) > 0
	renumbered := s.Renumbered(changed)
	if reclassify || len(changed.Authorization) > 0 || len(renumbered) > 0 {
		for _, st := range c.streams {
			ns := st.proxy.Namespace
			if reclassify || renumbered[ns] || len(changed.Authorization) > 0 && (st.proxy.IsRouter() || st.proxy.IsWaypoint() || s.AuthorizedFrom(changed.Authorization, ns)) {
				c.place(st)
			}
		}
	}
	if differs || len(changed.Authorization) > 0 { // EgressPolicies are asked for each connection: nothing that is told of a pod is made of them
		c.lookAtPods()
	}
	// the gateway first, which others send to, and waypoints
	for st := range c.names.exits {
		st.push()
	}
	c.names.look()
	if named {
		c.awaitExits()
	}
	for st := range c.rows.exits {
		st.push()
	}
	c.rows.look()
	for _, st := range c.streams {
		_, exit := c.names.exits[st]
		if _, front := c.rows.exits[st]; !exit && !front {
			st.push()
		}
	}
	c.letCome()
	c.watchHolds()
	if next := c.nextLeaving(); !next.IsZero() {
		c.watchRests(next)
	}
	c.giveBackAfter(freeEvery)
}

// advance makes all classes' next views, and says whether there are new names for DNS in any. Who goes by waypoints goes another way to the hosts that turn.
func (c *Cache) advance(s *registry.Snapshot, changed registry.Changed, turn map[string]bool) (named bool) {
	differ := map[*class][]resource.Ref{}
	var advance func(cl *class)
	advance = func(cl *class) {
		if _, done := differ[cl]; done {
			return
		}
		if cl.over != nil {
			advance(cl.over)
		}
		differ[cl] = cl.advance(c.translator, s, changed, differ[cl.over])
		cl.turn(turn, differ[cl])
		named = named || cl.names(differ[cl])
	}
	for _, cl := range c.classes {
		advance(cl)
	}
	return named
}

// Relabel tells of pods, by POD.NAMESPACE as in node ids, whose labels are others now than when their proxies came.
// These move on to what proxies with such labels get. Machines are none of them, however they call themselves.
func (c *Cache) Relabel(pods map[string]map[string]string) {
	if len(pods) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, st := range c.streams {
		if labels, ok := pods[podOf(st.proxy.ID)]; ok && st.proxy.Machine == nil {
			c.relabel(st, labels)
		}
	}
}

// relabel gives a stream other labels. c.mu is held.
func (c *Cache) relabel(st *stream, labels map[string]string) {
	st.proxy.Labels = labels
	c.place(st)
	st.push()
	c.heardFrom(st)
}

// join takes a new stream, as the node that authorize says it is. Nothing that decides about it changes in between: a
// pod's new labels come to authorize, or to Relabel.
func (c *Cache) join(st *stream, authorize func() (translate.Node, error)) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.proxy, err = authorize(); err != nil {
		return err
	}
	// An Envoy's own node lists all its extensions: too much to keep of each.
	st.node, st.names, st.rows, st.rested = &core.Node{Id: st.proxy.ID}, c.names, c.rows, c.watchRests
	c.place(st)
	c.streams[st.node] = st
	return nil
}

// place puts a stream into the class it belongs to now, and forgets classes that nobody is in any more.
func (c *Cache) place(st *stream) {
	c.putOn(st)
	c.police(st)
	key := translate.Classify(c.snapshot, st.proxy)
	if st.class != nil && st.class.view.Class == key {
		c.countExit(st) // the mesh may have another gateway now
		return
	}
	cl, was := c.classOf(key), st.class
	cl.users++
	if st.class = cl; was != nil {
		c.release(was) // last, since both may be over one
	}
	c.countExit(st)
}

// police puts a stream among those that are governed by the same policies.
func (c *Cache) police(st *stream) {
	if st.proxy.IsAmbient() {
		st.proxy.Serves = namespacesIn(st.pods.pods)
	}
	key := translate.PolicedBy(c.snapshot, st.proxy)
	if st.policed != nil {
		if st.policed.police == key {
			return
		}
		c.leavePoliced(st)
	}
	cl := c.policed[key]
	if cl == nil {
		c.made++
		cl = &class{id: c.made, police: key, view: c.policies(key)}
		c.policed[key] = cl
	}
	cl.users++
	st.policed = cl
}

// policies makes the view of a kind: of a gateway, from that of another one, since they differ in little.
func (c *Cache) policies(key translate.PolicyClass) *translate.View {
	for other, cl := range c.policed {
		if key.Kind == translate.Gateway && other.Kind == translate.Gateway {
			return translate.Reauthorize(cl.view, c.snapshot, key)
		}
	}
	return translate.BuildPolicies(c.snapshot, key)
}

func (c *Cache) leavePoliced(st *stream) {
	if st.policed.users--; st.policed.users == 0 {
		delete(c.policed, st.policed.police)
	}
}

// classOf finds a class, or makes it.
func (c *Cache) classOf(key translate.Class) *class {
	if cl := c.classes[key]; cl != nil {
		return cl
	}
	c.made++
	cl := &class{id: c.made}
	if common := key.Common(); common != key {
		cl.over = c.classOf(common)
		cl.over.users++
		cl.view = c.translator.BuildOver(cl.over.view, c.snapshot, key)
	} else {
		cl.view = c.translator.Build(c.snapshot, key)
	}
	c.settleLater()
	c.classes[key] = cl
	return cl
}

// release forgets a class that nobody uses any more.
func (c *Cache) release(cl *class) {
	if cl.users--; cl.users > 0 {
		return
	}
	delete(c.classes, cl.view.Class)
	if cl.view.Class.Own != "" {
		c.translator.KeepOwn(maps.Keys(c.classes))
	}
	if cl.over != nil {
		c.release(cl.over)
	}
}

// leave forgets a stream.
func (c *Cache) leave(node *core.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st := c.streams[node]; st != nil {
		c.release(st.class)
		c.leavePoliced(st)
		c.leavePods(st)
		delete(c.streams, node)
		c.names.leaves(st)
		c.rows.leaves(st)
		c.letCome()
		c.watchHolds()
	}
}

// hear takes a request on a delta stream, which is answered now, or left open until there is something to say.
func (c *Cache) hear(st *stream, t resource.Type, req *discovery.DeltaDiscoveryRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[st.node] != st {
		return fmt.Errorf("xds: the stream of %q ended", st.node.GetId())
	}
	c.asked.share(req)
	w := st.asks[t]
	if w == nil {
		sub := gcpstream.NewDeltaSubscription(req.GetResourceNamesSubscribe(), req.GetResourceNamesUnsubscribe(), req.GetInitialResourceVersions(), true)
		w = &watch{sub: &sub, delta: &sub}
		st.asks[t] = w
	} else {
		w.delta.UpdateResourceSubscriptions(req.GetResourceNamesSubscribe(), req.GetResourceNamesUnsubscribe())
	}
	w.subscribes, w.said, w.waits = req.GetResourceNamesSubscribe(), req.GetInitialResourceVersions(), false
	if err := c.watch(st, t, w); err != nil {
		return err
	}
	st.forgetUnknown(t, w, req.GetResourceNamesSubscribe())
	return nil
}

// CreateDeltaWatch is never called: delta streams are not go-control-plane's (serveDelta).
func (c *Cache) CreateDeltaWatch(*discovery.DeltaDiscoveryRequest, cache.Subscription, chan cache.DeltaResponse) (func(), error) {
	return nil, errors.New("xds: delta streams are served by themselves")
}

// CreateWatch does as hear does for state-of-the-world requests.
func (c *Cache) CreateWatch(req *discovery.DiscoveryRequest, sub cache.Subscription, out chan cache.Response) (func(), error) {
	t, ok := resource.ParseType(req.GetTypeUrl())
	if !ok {
		return func() {}, nil // a type that is not served here: never an answer, as for an empty set that stays empty
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	st, w := c.streams[req.GetNode()], &watch{sotw: req, sub: sub, sotwOut: out}
	if st == nil {
		return nil, fmt.Errorf("xds: the stream of %q ended", req.GetNode().GetId())
	}
	if req.GetErrorDetail() != nil {
		w.refused = st.stats.version(t)
	}
	if err := c.watch(st, t, w); err != nil {
		return nil, err
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if st.watches[t] == w {
			st.watches[t] = nil
		}
	}, nil
}

// watch answers a question, or leaves it open. c.mu is held.
func (c *Cache) watch(st *stream, t resource.Type, w *watch) error {
	if st.lost {
		return status.Errorf(codes.Unavailable, "xds: %q left %d pushes unanswered; connect again", st.node.GetId(), patience)
	}
	st.watches[t] = w
	st.answer(t, true)
	if st.follows(resource.VirtualHost) {
		st.answer(resource.VirtualHost, true)
	}
	st.askNow(t)
	c.heardFrom(st)
	c.unpackLater(st.of(t), t)
	return nil
}

// Fetch is the polling form of xDS, which is not offered.
func (c *Cache) Fetch(context.Context, *discovery.DiscoveryRequest) (cache.Response, error) {
	return nil, errors.New("xds: polling is not offered; use a stream")
}
