package relay

import (
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
)

// Watch is a type that the agent itself follows, by wildcard.
type Watch struct {
	TypeURL string
	// Apply takes what changed. An error refuses the whole change: it is not kept, and the controller hears why.
	// It is called once with everything on disk before the relay runs, then from the relay's goroutine.
	Apply func(changed []*discoveryv3.Resource, removed []string) error
}

// controllerResponse takes one response of the controller's.
func (m *machine) controllerResponse(resp *discoveryv3.DeltaDiscoveryResponse) {
	k := m.kind(resp.GetTypeUrl())
	was := m.heard
	m.heard, m.alone = true, false
	switch {
	case k.watch != nil:
		m.apply(k, resp)
	case !k.subscribed: // nobody is there to accept it; the next stream will ask again
	default:
		m.forward(k, resp)
	}
	if !was { // what Envoy already asked for by name need not wait any longer
		for _, other := range m.ordered() {
			m.serve(other)
		}
	}
}

// forward sends to Envoy what it lacks of a response. The first response to a wildcard is completed from the table:
// the controller left out what it was told that we hold.
func (m *machine) forward(k *kind, resp *discoveryv3.DeltaDiscoveryResponse) {
	j := &job{upstream: resp.GetNonce()}
	for _, r := range resp.GetResources() {
		held, ok := k.has[r.GetName()]
		if ok && held == r.GetVersion() {
			m.recover(k, r)
			continue
		}
		if k.wants(r.GetName(), r.GetAliases()...) {
			j.resources = append(j.resources, r)
		}
	}
	for _, name := range resp.GetRemovedResources() {
		_, named := k.names[name]
		if _, held := k.has[name]; held || named {
			j.removed = append(j.removed, name)
		} else {
			delete(k.rejected, name)
			k.table.Remove(name)
		}
	}
	if k.all && !k.answered {
		j.resources = append(j.resources, m.missing(k, resp.GetResources(), resp.GetRemovedResources())...)
	}
	empty := len(resp.GetResources())+len(resp.GetRemovedResources()) == 0
	if len(j.resources)+len(j.removed) == 0 && k.answered && !empty {
		m.tell(k.answer(resp.GetNonce(), nil))
		return
	}
	m.send(k, j)
}

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
	if err := k.watch.Apply(changed, resp.GetRemovedResources()); err != nil {
		m.nacks++
		m.log.Warn("a change of the agent's own configuration was refused; the last good one stays", "type", k.url, "err", err)
		m.tell(k.answer(resp.GetNonce(), &statuspb.Status{Code: int32(codes.InvalidArgument), Message: err.Error()}))
		return
	}
	k.accepted = true
	k.table.Accepted()
	for _, r := range changed {
		k.table.Put(r)
	}
	for _, name := range resp.GetRemovedResources() {
		k.table.Remove(name)
	}
	m.tell(k.answer(resp.GetNonce(), nil))
}

// restore hands everything on disk to the watchers. What a watcher refuses is forgotten.
func (m *machine) restore() {
	for _, k := range m.ordered() {
		if k.watch == nil || !k.table.Known() {
			continue
		}
		var all []*discoveryv3.Resource
		for name := range k.table.Versions() {
			r, err := k.table.Resource(name)
			if err != nil {
				m.log.Warn("an accepted resource cannot be read back; the controller is asked for it again", "err", err)
				k.table.Remove(name)
				continue
			}
			all = append(all, r)
		}
		if err := k.watch.Apply(all, nil); err != nil {
			m.log.Warn("what was kept of the agent's own configuration cannot be used; the controller is asked for it again",
				"type", k.url, "err", fmt.Errorf("%d resources: %w", len(all), err))
			for _, r := range all {
				k.table.Remove(r.GetName())
			}
		}
	}
}
