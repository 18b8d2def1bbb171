package relay

import (
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/wire"
)

// At a node, scopes lead what pods send to a port to the port's table: each has the name of its table, and of the port (xds/envoy). Envoy asks for a table when it has
// the scope, and until it has both there is nothing for what comes.

// lacksTable says whether Envoy has a scope and not its table, or has not given its word about that, and about the first rows behind it: what came before is lost to Envoy, and without
// any there is no table.
func (m *machine) lacksTable() bool {
	scopes := m.kinds[ScopeType]
	if scopes == nil {
		return false
	}
	routes := m.kind(RouteType)
	for name, version := range scopes.has {
		if _, waits := m.rowless[name]; version != leftOpen && (waits || routes.has[name] == "") {
			return true
		}
	}
	return false
}

// tableComes notes that Envoy is given a table that it did not have: its rows come after it.
func (m *machine) tableComes(k *kind, j *job) {
	if k.url != RouteType {
		return
	}
	for i, r := range j.resources {
		if j.before[i] == "" && r.GetName() != wire.CatchAllDecide { // which has none
			m.rowless[r.GetName()] = j.came
		}
	}
}

// rowsTaken notes that Envoy has rows of a table that came after the table.
func (m *machine) rowsTaken(k *kind, j *job) {
	if k.url != VirtualHost || len(m.rowless) == 0 {
		return
	}
	for _, r := range j.resources {
		table, _, _ := strings.Cut(r.GetName(), "/")
		if came, waits := m.rowless[table]; waits && came <= j.came {
			delete(m.rowless, table)
		}
	}
}

// leftOpen is the version of a scope that was taken away.
const leftOpen = "left open"

// leaveOpen gives, of scopes that are taken away, what Envoy is told instead: that they lead to the table for all other ports. A port whose last host goes is one
// of those from then on, and so are the connections that are open to it, which nothing closes: without a scope, all that they ask for would be
// answered with 404, as long as they live.
func leaveOpen(k *kind, removed []string) (instead []*discoveryv3.Resource, gone []string) {
	if k.url != ScopeType {
		return nil, removed
	}
	for _, name := range removed {
		switch name {
		case wire.CatchAllDecide:
			gone = append(gone, name)
			continue
		case wire.ExitRoute: // a gateway's one table stays, found by its scope or without: who came by it goes on
			continue
		}
		instead = append(instead, &discoveryv3.Resource{Name: name, Version: leftOpen, Resource: &anypb.Any{TypeUrl: ScopeType, Value: scope(name, wire.CatchAllDecide)}})
	}
	return instead, gone
}

// scope is an envoy.config.route.v3.ScopedRouteConfiguration: what names it goes to a table.
func scope(name, table string) []byte {
	field := func(b []byte, number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
	}
	key := field(nil, 1, field(nil, 1, []byte(name))) // its fragments, of which one is a text
	return field(field(field(nil, 1, []byte(name)), 2, []byte(table)), 3, key)
}
