package relay

import "context"

// Status is what the relay is doing, for people and for metrics.
type Status struct {
	Connected bool         `json:"connected"`       // the controller has answered on the present stream
	FromDisk  bool         `json:"fromDisk"`        // Envoy is served without the controller
	Envoy     bool         `json:"envoy"`           // an Envoy is connected
	Synced    bool         `json:"synced"`          // and has accepted clusters and listeners
	Lacks     string       `json:"lacks,omitempty"` // what it needs beside, before the pod is ready
	Streams   uint64       `json:"streams"`         // to the controller, so far
	NACKs     uint64       `json:"nacks"`
	Types     []TypeStatus `json:"types"`
}

// TypeStatus is the state of one resource type.
type TypeStatus struct {
	Type     string `json:"type"`
	Wildcard bool   `json:"wildcard"`
	Named    int    `json:"named"`    // names subscribed to
	Accepted int    `json:"accepted"` // resources that are kept
	Waiting  int    `json:"waiting"`  // responses without Envoy's word
	// OnUse says that Envoy is given what is used of them, and Given how many that are.
	OnUse    bool                 `json:"onUse,omitempty"`
	Given    int                  `json:"given,omitempty"`
	Versions map[string]string    `json:"versions,omitempty"`
	Rejected map[string]Rejection `json:"rejected,omitempty"`
}

// Status reports; versions adds every resource's, which is long.
func (r *Relay) Status(ctx context.Context, versions bool) (Status, error) {
	var out Status
	err := r.call(ctx, func() { out = r.machine.status(versions) })
	out.Envoy = r.synced.Load() || out.Envoy
	out.Synced, out.Lacks = r.synced.Load(), r.Lacks()
	return out, err
}

func (m *machine) status(versions bool) Status {
	out := Status{Connected: m.heard, FromDisk: m.alone, Streams: m.streams, NACKs: m.nacks}
	for _, k := range m.ordered() {
		t := TypeStatus{Type: k.url, Wildcard: k.all, Named: len(k.names), Accepted: k.table.Len(), Waiting: len(k.inflight)}
		if m.rows != nil && k.url == VirtualHost {
			t.OnUse, t.Given = true, len(k.has)
		}
		if versions {
			t.Versions = map[string]string{}
			for name, version := range k.table.Versions() {
				t.Versions[name] = version
			}
		}
		if len(k.rejected) > 0 {
			t.Rejected = make(map[string]Rejection, len(k.rejected))
			for name, why := range k.rejected {
				t.Rejected[name] = why
			}
		}
		out.Envoy = out.Envoy || k.watch == nil && k.subscribed
		out.Types = append(out.Types, t)
	}
	return out
}
