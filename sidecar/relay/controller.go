package relay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
)

// Watch is a type that the agent itself follows, by wildcard.
type Watch struct {
	TypeURL string
	// Secret says that what is kept of the type is nobody's to read: what is replaced or removed does not stay on disk.
	Secret bool
	// Last says that what is new of the type waits until Envoy has given its word about all that came before it.
	Last bool
	// Apply takes what changed and gives the resources that it cannot take, with the reasons: these are not kept, and
	// the controller hears why. It is called once with everything on disk before the relay runs, if there is
	// anything, then from the relay's goroutine.
	Apply func(changed []*discoveryv3.Resource, removed []string) (refused map[string]error)
	// InForce is asked after Apply, and gives what is closed when what was applied counts; nil where it does already. Until then the controller hears nothing: it may tell
	// others no sooner. nil: nobody asks. It must not wait.
	InForce func() <-chan struct{}
}

// controllerResponse takes one response of the controller's.
func (m *machine) controllerResponse(resp *discoveryv3.DeltaDiscoveryResponse) {
	k := m.kind(resp.GetTypeUrl())
	was := m.heard
	m.heard, m.alone, m.current = true, false, false
	m.came++
	switch {
	case k.watch != nil && m.holdsBack(k, resp):
		k.held = append(k.held, &heldBack{resp, m.came})
	case k.watch != nil:
		m.apply(k, resp)
		m.certified(k, resp)
	case !k.subscribed: // nobody is there to accept it; the next stream will ask again
	default:
		m.pass(k, resp)
	}
	if !was { // what Envoy already asked for by name need not wait any longer
		for _, other := range m.ordered() {
			m.serve(other)
		}
	}
}

// pass hands on what is for Envoy. Tables may have to wait for rows, and follow them.
func (m *machine) pass(k *kind, resp *discoveryv3.DeltaDiscoveryResponse) {
	switch {
	case k.url == RouteType && m.holdsTables(resp):
		m.tables = append(m.tables, resp)
	case k.url == RouteType:
		m.seeTables(resp.GetResources(), resp.GetRemovedResources())
		m.forward(k, resp)
	default:
		m.forward(k, resp)
		if k.url == VirtualHost && len(m.tables) > 0 && m.rows != nil && m.rows.complete.Load() {
			held := m.tables
			m.tables = nil
			for _, tables := range held {
				m.pass(m.kind(RouteType), tables)
			}
		}
	}
}

// forward sends to Envoy what it lacks of a response. The first response to a wildcard is completed from the table:
// the controller left out what it was told that we hold.
func (m *machine) forward(k *kind, resp *discoveryv3.DeltaDiscoveryResponse) {
	j := &job{upstream: resp.GetNonce(), came: m.came}
	for _, r := range resp.GetResources() {
		if m.holdsRow(k, r) {
			continue
		}
		held, ok := k.has[r.GetName()]
		if ok && held == r.GetVersion() && !repeats(k.url) {
			m.recover(k, r)
			continue
		}
		if k.wants(r.GetName(), r.GetAliases()...) {
			j.resources = append(j.resources, r)
		}
	}
	if m.rows != nil && k.url == VirtualHost {
		m.allCame(k, resp)
	}
	for _, name := range resp.GetRemovedResources() {
		m.lostRow(k, name)
		_, named := k.names[name]
		if _, held := k.has[name]; held || named {
			j.removed = append(j.removed, name)
		} else {
			delete(k.rejected, name)
			k.table.Remove(name)
		}
	}
	if m.rows != nil && k.url == VirtualHost {
		m.rowsCame(k, resp)
	}
	if k.all && !k.answered {
		j.resources = append(j.resources, m.missing(k, resp.GetResources(), resp.GetRemovedResources())...)
	}
	if len(j.resources)+len(j.removed) == 0 && k.answered { // an empty first answer is one: Envoy waits for it
		m.tell(k.answer(resp.GetNonce(), nil))
		return
	}
	m.send(k, j)
}

// repeats says whether a controller that sends what is held already means it: the endpoints of a cluster that is
// warmed anew, the virtual hosts of a route table that came after them. Envoy waits for both.
func repeats(url string) bool { return url == EndpointType || url == VirtualHost }

// recover keeps the body of a resource that Envoy said it holds when its stream began, and we do not.
func (m *machine) recover(k *kind, r *discoveryv3.Resource) {
	for _, j := range k.inflight {
		for _, flying := range j.resources {
			if flying.GetName() == r.GetName() {
				return
			}
		}
	}
	if held, ok := k.table.Version(r.GetName()); !ok || held != r.GetVersion() {
		k.table.Put(r)
	}
}

// apply hands a response of the agent's own type to its watcher.
func (m *machine) apply(k *kind, resp *discoveryv3.DeltaDiscoveryResponse) {
	var changed []*discoveryv3.Resource
	for _, r := range resp.GetResources() {
		if held, ok := k.table.Version(r.GetName()); !ok || held != r.GetVersion() {
			changed = append(changed, r)
		}
	}
	refused := k.watch.Apply(changed, resp.GetRemovedResources())
	k.accepted = true
	k.table.Accepted()
	for _, r := range changed {
		if why, bad := refused[r.GetName()]; bad {
			k.refuse(r, why.Error())
			continue
		}
		delete(k.rejected, r.GetName())
		k.table.Put(r)
	}
	for _, name := range resp.GetRemovedResources() {
		delete(k.rejected, name)
		k.table.Remove(name)
	}
	var problem *statuspb.Status
	if len(refused) > 0 {
		m.nacks++
		reason := refusal(refused)
		m.log.Warn("the agent refused a part of its own configuration; the last good versions stay", "type", k.url, "reason", reason)
		problem = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: reason}
	}
	if resp.GetNonce() != "" { // its stream has not ended meanwhile
		m.tellInForce(k, k.answer(resp.GetNonce(), problem))
	}
}

// tellInForce tells the controller of what was applied when it counts, if its stream has not ended by then.
func (m *machine) tellInForce(k *kind, answer *discoveryv3.DeltaDiscoveryRequest) {
	if k.watch.InForce == nil || m.after == nil {
		m.tell(answer)
		return
	}
	counts, stream := k.watch.InForce(), m.streams
	if counts == nil {
		m.tell(answer)
		return
	}
	m.after(counts, func() {
		if m.connected && m.streams == stream {
			m.tell(answer)
		}
	})
}

// refusal names at most ten of the refused resources.
func refusal(refused map[string]error) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if len(out) == 10 {
			out = append(out, fmt.Sprintf("and %d more", len(refused)-10))
			break
		}
		out = append(out, fmt.Sprintf("%s: %v", name, refused[name]))
	}
	return strings.Join(out, "; ")
}

// restore hands everything on disk to the watchers. What a watcher refuses is forgotten.
func (m *machine) restore() {
	if k := m.kind(RouteType); k.table.Known() {
		m.seeTables(m.bodies(k), nil)
	}
	for _, k := range m.ordered() {
		if k.watch == nil || !k.table.Known() {
			continue
		}
		refused := k.watch.Apply(m.missing(k, nil, nil), nil)
		for name := range refused {
			k.table.Remove(name)
		}
		if len(refused) > 0 {
			m.log.Warn("a part of what was kept cannot be used; the controller is asked for it again",
				"type", k.url, "reason", refusal(refused))
		}
		m.certified(k, &discoveryv3.DeltaDiscoveryResponse{})
	}
}
