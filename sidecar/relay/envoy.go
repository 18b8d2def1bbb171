package relay

import (
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
)

// envoyRequest takes one request of Envoy's: an ACK or NACK, a change of subscriptions, or both.
func (m *machine) envoyRequest(req *discoveryv3.DeltaDiscoveryRequest) {
	k := m.kind(req.GetTypeUrl())
	if m.certificates != nil && k.url == SecretType {
		m.certificateRequest(req)
		return
	}
	if k.watch != nil {
		m.log.Warn("Envoy asks for a type that is the agent's own; not answered", "type", k.url)
		return
	}
	if req.GetResponseNonce() != "" {
		m.settle(k, req.GetResponseNonce(), req.GetErrorDetail())
	}
	add, drop := req.GetResourceNamesSubscribe(), req.GetResourceNamesUnsubscribe()
	first := !k.subscribed
	if !first && len(add)+len(drop) == 0 {
		return
	}
	k.subscribe(add, drop)
	if first {
		for name, version := range req.GetInitialResourceVersions() {
			k.has[name] = version
			if k.byName != nil {
				k.byName[name] = struct{}{}
			}
		}
		m.adopt(k)
	} else {
		for _, name := range add { // asking again means that Envoy has forgotten it
			delete(k.has, name)
		}
	}
	if k.asked && k.byName == nil {
		m.tell(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: k.url, ResourceNamesSubscribe: add, ResourceNamesUnsubscribe: drop})
	} else {
		m.ask(k)
	}
	m.serve(k)
}

// settle takes Envoy's word about a response. A nonce that is not known is stale.
func (m *machine) settle(k *kind, nonce string, reason *statuspb.Status) {
	i := slices.IndexFunc(k.inflight, func(j *job) bool { return j.nonce == nonce })
	if i < 0 {
		return
	}
	j := k.inflight[i]
	m.flying -= j.size
	if j.upstream != "" {
		m.tell(k.answer(j.upstream, reason))
	}
	var again []*job
	if reason == nil {
		m.accept(k, j)
	} else {
		again = m.reject(k, i, reason)
	}
	k.inflight = slices.Delete(k.inflight, i, i+1)
	for _, half := range again {
		half.came = j.came
		m.send(k, half)
	}
	m.sendGathered(k)
	m.tellUses()
	m.letGo()
}

// accept keeps what Envoy acknowledged, unless it unsubscribed meanwhile.
func (m *machine) accept(k *kind, j *job) {
	k.accepted = true
	k.table.Accepted()
	for _, r := range j.resources {
		if !k.wants(r.GetName(), r.GetAliases()...) || m.forgotten(k, r.GetName()) {
			continue
		}
		delete(k.rejected, r.GetName())
		if held, ok := k.table.Version(r.GetName()); !ok || held != r.GetVersion() {
			k.table.Put(r)
		}
		m.settleRow(k, r.GetName(), true)
	}
	for _, name := range j.removed {
		delete(k.rejected, name)
		k.table.Remove(name)
	}
	m.rowsTaken(k, j)
	if m.taken != nil {
		m.taken(k.url, j.resources, j.removed)
	}
}

// reject takes note of a refused resource, or gives the halves of a refused response that are worth another try.
// Resources that a later response carries too are left to that one.
func (m *machine) reject(k *kind, i int, reason *statuspb.Status) []*job {
	j := k.inflight[i]
	m.nacks++
	var open []*discoveryv3.Resource
	for n, r := range j.resources {
		if k.later(i, r.GetName()) {
			continue
		}
		if j.before[n] == "" {
			delete(k.has, r.GetName())
		} else {
			k.has[r.GetName()] = j.before[n]
		}
		open = append(open, r)
		m.settleRow(k, r.GetName(), j.before[n] != "")
	}
	var gone []string
	for _, name := range j.removed { // a removal cannot be wrong; its neighbours were
		if !k.later(i, name) {
			k.table.Remove(name)
			gone = append(gone, name)
		}
	}
	if m.taken != nil && len(gone) > 0 {
		m.taken(k.url, nil, gone)
	}
	if len(open) <= 1 || len(k.rejected) >= maxRejections {
		for _, r := range open {
			k.refuse(r, reason.GetMessage())
			m.log.Warn("Envoy rejected a resource; it keeps the last good version", "type", k.url, "resource", r.GetName(),
				"version", r.GetVersion(), "reason", reason.GetMessage())
		}
		return nil
	}
	half := len(open) / 2
	return []*job{{resources: open[:half]}, {resources: open[half:]}}
}

// purge drops what Envoy unsubscribed from before the last purge. Waiting for one round keeps what a dying Envoy
// unsubscribes from. It tells whether there is more to purge.
func (m *machine) purge() bool {
	more := false
	for _, k := range m.kinds {
		for name, due := range k.left {
			if !due {
				k.left[name], more = true, true
				continue
			}
			delete(k.left, name)
			if !k.wants(name) {
				k.table.Remove(name)
			}
		}
	}
	return more
}

// leaving tells whether a purge has anything to do.
func (m *machine) leaving() bool {
	for _, k := range m.kinds {
		if len(k.left) > 0 {
			return true
		}
	}
	return false
}
