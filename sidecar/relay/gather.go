package relay

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// Envoy makes a table again for each answer that has rows of it, which takes the longer the more it has: of rows that come in use one by one it would make it once for each. So while it
// owes its word about an answer, rows that come in use are gathered, and go together in the next one (docs/adr/0205-rows-are-gathered.md).

// gather sends rows that Envoy has to be given, or has them wait for its word about what it was sent.
func (m *machine) gather(k *kind, list []*row) {
	for _, is := range list {
		if !is.gathered {
			is.gathered = true
			m.rows.gathered = append(m.rows.gathered, is)
		}
	}
	m.sendGathered(k)
}

// sendGathered sends what was gathered, if Envoy owes no word: those rows that are still in use, and that it neither has nor has refused.
func (m *machine) sendGathered(k *kind) {
	if m.rows == nil || k.url != VirtualHost || len(k.inflight) > 0 {
		return
	}
	var found []*discoveryv3.Resource
	for _, is := range m.rows.scatter() {
		_, has := k.has[is.name]
		version, there := k.table.Version(is.name)
		if has || !there || !m.rows.gives(is.name) || k.rejected[is.name].Version == version {
			continue
		}
		if r, ok := m.body(k, is.name); ok {
			found = append(found, r)
		}
	}
	if len(found) > 0 {
		m.send(k, &job{resources: found})
	}
}

// scatter takes the rows that were gathered.
func (r *rows) scatter() (list []*row) {
	list, r.gathered = r.gathered, nil
	for _, is := range list {
		is.gathered = false
	}
	return list
}
