package dnsproxy

import (
	"maps"
	"net/netip"
)

// tables are the names that all clients are answered, and, at a node, those that clients of one namespace are answered instead: one immutable state.
type tables struct {
	all *names
	own map[string]*names // by namespace; only those that have any
}

// seen are they to clients of one namespace.
type seen struct{ all, own *names } // own may be nil

func (t *tables) to(namespace string) seen { return seen{t.all, t.own[namespace]} }

// find is names.find: the name itself comes before wildcards, the longer one of which comes first, and the namespace's own before everybody's.
func (s seen) find(wire []byte) *line {
	if s.own == nil {
		return s.all.find(wire)
	}
	own, all := s.own.find(wire), s.inPlace(s.all.find(wire))
	switch {
	case own == nil:
		return all
	case all == nil || !isWildcard(own.host):
		return own
	case !isWildcard(all.host) || len(all.host) > len(own.host):
		return all
	default:
		return own
	}
}

// exact is names.exact.
func (s seen) exact(wire []byte) *line {
	if s.own != nil {
		if l := s.own.exact(wire); l != nil {
			return l
		}
	}
	return s.inPlace(s.all.exact(wire))
}

// holder is names.holder.
func (s seen) holder(addr netip.Addr) *line {
	if s.own != nil {
		if l := s.own.holder(addr); l != nil {
			return l
		}
	}
	return s.inPlace(s.all.holder(addr))
}

// inPlace is the namespace's own line of the host of one of everybody's.
func (s seen) inPlace(l *line) *line {
	if s.own == nil || l == nil {
		return l
	}
	if own := s.own.hosts[bucket(l.host)][l.host]; own != nil {
		return own
	}
	return l
}

// tablesEdit is a change in the making.
type tablesEdit struct {
	was   *tables
	edits map[string]*edit // by namespace; "" of what all are answered
}

func (t *tables) edit() *tablesEdit { return &tablesEdit{t, map[string]*edit{}} }

// of is the change of one namespace's names.
func (e *tablesEdit) of(namespace string) *edit {
	if e.edits[namespace] == nil {
		from := e.was.own[namespace]
		if namespace == "" {
			from = e.was.all
		} else if from == nil {
			from = &names{}
		}
		e.edits[namespace] = from.edit()
	}
	return e.edits[namespace]
}

func (e *tablesEdit) done() *tables {
	out := &tables{all: e.was.all, own: e.was.own}
	for namespace, edited := range e.edits {
		if namespace == "" {
			out.all = &edited.names
			continue
		}
		own := maps.Clone(out.own)
		if own == nil {
			own = map[string]*names{}
		}
		if own[namespace] = &edited.names; edited.size == 0 {
			delete(own, namespace)
		}
		out.own = own
	}
	return out
}
