package relay

import (
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/sidecar/relay/state"
	"github.com/sallyport/sallyport/xds/digest"
)

// machine decides what goes to Envoy and to the controller. Its methods take one event each and append the messages
// that follow to toEnvoy and toController, whose order must be kept. One goroutine uses it; others may read published.
type machine struct {
	log   *slog.Logger
	store *state.Store
	kinds map[string]*kind
	node  *corev3.Node // sent in the first request of every stream to the controller
	// listeners are those that Envoy must have, see lacks; complete says that it had everything in this session.
	listeners []string
	complete  bool
	after     func(closed <-chan struct{}, do func())                                 // has something done in the machine's goroutine when a channel is closed; nil where there is none
	taken     func(typeURL string, changed []*discoveryv3.Resource, removed []string) // see Config
	open      func(each func(table, host string))                                     // see Config

	toEnvoy      []*discoveryv3.DeltaDiscoveryResponse
	toController []*discoveryv3.DeltaDiscoveryRequest

	connected bool // a stream to the controller is open
	heard     bool // and a response came on it
	alone     bool // waiting for the controller is over: the disk answers
	current   bool // what is kept is what Envoy had of the controller's, all of it, see controllerGone
	first     bool // the next request on the stream needs the node

	rowless   map[string]uint64    // tables that Envoy has, or is being sent, and no rows of: when they came
	rows      *rows                // nil where Envoy is given all virtual hosts
	published atomic.Pointer[rows] // rows, for others than the relay's goroutine
	uses      []*use
	digest    *digest.Set                           // says which rows there are that are not held; nil where rows are not asked for by name
	asking    []*ask                                // who waits for the controller's word about rows
	tables    []*discoveryv3.DeltaDiscoveryResponse // what waits for all rows (holdsTables)
	echo      string                                // by which the answer to the question for all rows is known; "" without one
	awaits    bool                                  // it has not come
	echoes    uint64                                // so far
	lost      time.Time                             // when the last stream to the controller ended
	now       func() time.Time

	certificates *certificates // nil where Envoy does not ask for certificates by name

	health  *string // how the machine is, as the controller is told; nil where nobody asks
	nonce   uint64
	came    uint64 // responses of the controller's
	flying  int    // bytes sent to Envoy that await its word
	nacks   uint64
	streams uint64
}

func newMachine(log *slog.Logger, store *state.Store, node *corev3.Node, watches []Watch) *machine {
	m := &machine{log: log, store: store, node: node, kinds: map[string]*kind{}, rowless: map[string]uint64{}, now: time.Now}
	m.lost = m.now()
	for _, watch := range watches {
		k := m.kind(watch.TypeURL)
		k.watch, k.subscribed, k.all = &watch, true, true
		if watch.Secret {
			k.table.Scrub()
		}
	}
	return m
}

func (m *machine) kind(url string) *kind {
	k, ok := m.kinds[url]
	if !ok {
		k = &kind{url: url, table: m.store.Table(url), rejected: map[string]Rejection{}}
		k.reset()
		m.kinds[url] = k
	}
	return k
}

// ordered gives the kinds in the order in which they are asked for and answered.
func (m *machine) ordered() []*kind {
	urls := make([]string, 0, len(m.kinds))
	for url := range m.kinds {
		urls = append(urls, url)
	}
	rank := func(url string) int {
		if i := slices.Index(order, url); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortFunc(urls, func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		if a < b {
			return -1
		}
		return 1
	})
	kinds := make([]*kind, len(urls))
	for i, url := range urls {
		kinds[i] = m.kinds[url]
	}
	return kinds
}

// envoyGone forgets the session. Also called before a new one begins.
func (m *machine) envoyGone() {
	m.noteCurrent()
	m.toEnvoy, m.flying, m.complete, m.rowless = nil, 0, false, map[string]uint64{}
	for _, k := range m.kinds {
		if k.watch == nil {
			k.reset()
		}
	}
	m.rowsGone()
	if m.certificates != nil {
		m.certificates.reset()
	}
	m.letGo()
}

// controllerOpen is called when a stream to the controller has opened: every subscription is made on it.
func (m *machine) controllerOpen() {
	m.connected, m.heard, m.alone, m.first = true, false, false, true
	m.toController = nil
	m.streams++
	for _, k := range m.ordered() {
		k.asked, k.rejected = false, map[string]Rejection{} // the controller will send again what was refused
		m.ask(k)
	}
	m.tellHealth()
}

// noteCurrent notes whether Envoy, or the one before, has taken all that the controller ever said. It is called before that is forgotten.
func (m *machine) noteCurrent() {
	m.current = m.rows == nil && (m.current || m.settled())
}

// controllerGone is called when the stream ended or could not be opened, or is about to be opened anew for another Envoy. What Envoy has not answered yet can no
// longer be acknowledged there. An Envoy that follows one which had taken all that the controller said is given what is kept at once, if nothing has been said since: everybody waits for
// an Envoy that was killed, and no controller has to make anything for that, or be there. The one before would go on with just that. What changes as of then comes by the new stream.
func (m *machine) controllerGone() {
	m.noteCurrent()
	if m.connected {
		m.lost = m.now()
	}
	m.connected, m.heard, m.toController, m.tables = false, false, nil, nil
	m.echo, m.awaits = "", false // the first answer on the next stream is to all that is asked for there
	for _, k := range m.kinds {
		k.asked = false
		for _, j := range k.inflight {
			j.upstream = ""
		}
		for _, h := range k.held {
			h.Nonce = ""
		}
	}
}

// stopWaiting answers from disk whatever Envoy waits for.
func (m *machine) stopWaiting() {
	m.alone = true
	for _, k := range m.ordered() {
		m.serve(k)
	}
}

// synced tells whether Envoy has accepted clusters and listeners in this session.
func (m *machine) synced() bool {
	for _, url := range []string{ClusterType, ListenerType} {
		if k, ok := m.kinds[url]; !ok || !k.accepted {
			return false
		}
	}
	return true
}

// ask makes the first request for a type on the controller's stream.
func (m *machine) ask(k *kind) {
	if req := k.request(); req != nil && m.connected && !k.asked {
		k.asked = true
		m.tell(req)
	}
}

func (m *machine) tell(req *discoveryv3.DeltaDiscoveryRequest) {
	if m.first {
		m.first, req.Node = false, m.node
	}
	m.toController = append(m.toController, req)
}

// serve sends from the table what Envoy subscribes to and has not been sent, if the time for it has come: for named
// resources as soon as the controller is heard, because it will correct them; for a wildcard only when the controller
// stays silent, because its first response would follow at once. What is current need not wait for either.
func (m *machine) serve(k *kind) {
	if k.watch != nil || !k.subscribed || !m.alone && !m.current && (!m.heard || k.all && k.byName == nil) {
		return
	}
	m.serveNow(k)
}

func (m *machine) serveNow(k *kind) {
	found := m.missing(k, nil, nil)
	if len(found) > 0 || k.all && !k.answered && k.table.Known() {
		m.alone = m.alone || !m.connected
		m.send(k, &job{resources: found})
	}
}

// waits tells whether Envoy has had no answer for a type that the disk could answer.
func (m *machine) waits(k *kind) bool {
	return k.watch == nil && k.subscribed && !k.answered && k.table.Known()
}

// waiting tells whether losePatience has anything to do.
func (m *machine) waiting() bool {
	for _, k := range m.kinds {
		if m.waits(k) {
			return true
		}
	}
	return false
}

// losePatience answers from disk what has waited since the call before. A controller that is well says nothing
// about a wildcard of which we hold everything, if it is allowed to be brief; one that said nothing at all is
// counted as gone.
func (m *machine) losePatience() {
	for _, k := range m.ordered() {
		switch {
		case !m.waits(k):
		case !k.late:
			k.late = true
		default:
			if !m.heard && !m.alone {
				m.log.Warn("the controller does not answer; Envoy is served from disk")
				m.alone = true
			}
			m.serveNow(k)
		}
	}
}

// missing gives the table's resources that Envoy wants and does not have, except those named by a response that is
// about to be sent.
func (m *machine) missing(k *kind, sent []*discoveryv3.Resource, removed []string) []*discoveryv3.Resource {
	except := make(map[string]struct{}, len(sent)+len(removed))
	for _, r := range sent {
		except[r.GetName()] = struct{}{}
	}
	for _, name := range removed {
		except[name] = struct{}{}
	}
	var names []string
	for name, version := range k.table.Versions() {
		_, skip := except[name]
		_, held := k.has[name] // older or newer: the controller decides what replaces it
		if !skip && !held && k.wants(name) && m.gives(k, name) && version != k.rejected[name].Version {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	found := make([]*discoveryv3.Resource, 0, len(names))
	for _, name := range names {
		if r, ok := m.body(k, name); ok {
			found = append(found, r)
		}
	}
	return found
}

// bodies gives all that is on disk of a type.
func (m *machine) bodies(k *kind) (found []*discoveryv3.Resource) {
	for name := range k.table.Versions() {
		if r, ok := m.body(k, name); ok {
			found = append(found, r)
		}
	}
	return found
}

// body reads a resource back.
func (m *machine) body(k *kind, name string) (*discoveryv3.Resource, bool) {
	r, err := k.table.Resource(name)
	if err != nil {
		m.log.Warn("an accepted resource cannot be read back; the controller is asked for it again", "err", err)
		k.table.Remove(name)
	}
	return r, err == nil
}

// send puts a response on its way to Envoy. Versions count as held from now on, so that nothing is sent twice.
func (m *machine) send(k *kind, j *job) {
	m.nonce++
	j.nonce = strconv.FormatUint(m.nonce, 10)
	j.before = make([]string, len(j.resources))
	for i, r := range j.resources {
		j.before[i] = k.has[r.GetName()]
		k.has[r.GetName()] = r.GetVersion()
	}
	removed := slices.Concat(j.removed, j.released)
	for _, name := range removed {
		delete(k.has, name)
	}
	instead, gone := leaveOpen(k, removed)
	response := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: k.url, Nonce: j.nonce, Resources: slices.Concat(j.resources, instead), RemovedResources: gone,
	}
	j.size = proto.Size(response)
	m.flying += j.size
	k.answered = true
	k.inflight = append(k.inflight, j)
	m.tableComes(k, j)
	m.toEnvoy = append(m.toEnvoy, response)
}
