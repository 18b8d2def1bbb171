package store

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"github.com/sallyport/sallyport/xds/wire"
)

// spoolKey names one numbering of one proxy.
type spoolKey struct {
	proxy string
	epoch uint64
}

func (k spoolKey) compare(to spoolKey) int {
	return cmp.Or(cmp.Compare(k.proxy, to.proxy), cmp.Compare(k.epoch, to.epoch))
}

// spool is what is known of one numbering.
type spool struct {
	spoolKey
	spans   spans
	version uint64    // of the transaction that changed it last
	updated time.Time // when that was
}

// How much is remembered. An agent has one numbering for as long as its folder and its host's boot last, and ships it in order: one span. But whoever has
// a certificate may name as many as he likes, and pods that nobody knows, all of his own namespace: what is forgotten for it is of that namespace, and what was silent for
// longest there. Records of a numbering that was forgotten are stored, and stored twice where they come again (docs/adr/0228-what-one-writer-may-make-the-log-keep.md).
const (
	maxEpochs           = 16      // of a proxy
	maxSpansOfNamespace = 1 << 15 // of its proxies' numberings, each of which has one at least: some 12 MB
)

// remembered are the numberings that are known.
type remembered struct {
	spools     map[spoolKey]*list.Element // of its namespace's order
	epochs     map[string][]uint64        // of a proxy, in the order in which they sent something last
	namespaces map[string]*spoolsOf
}

// spoolsOf are those of a namespace.
type spoolsOf struct {
	order list.List // of *spool, in the order in which they sent something last
	spans int       // of all of them
}

func newRemembered() remembered {
	return remembered{spools: map[spoolKey]*list.Element{}, epochs: map[string][]uint64{}, namespaces: map[string]*spoolsOf{}}
}

// known gives the numbers of a spool, which are not to be changed.
func (m *remembered) known(key spoolKey) spans {
	if at := m.spools[key]; at != nil {
		return at.Value.(*spool).spans
	}
	return nil
}

// remember takes a spool that has just sent something in the place of what was known of it, and forgets what is too much.
func (m *remembered) remember(s *spool) {
	_, namespace := wire.PodOfNode(s.proxy)
	of := m.namespaces[namespace]
	if of == nil {
		of = &spoolsOf{}
		m.namespaces[namespace] = of
	}
	if at := m.spools[s.spoolKey]; at != nil {
		of.spans -= len(at.Value.(*spool).spans)
		at.Value = s
		of.order.MoveToBack(at)
		m.epochs[s.proxy] = append(without(m.epochs[s.proxy], s.epoch), s.epoch)
	} else {
		m.spools[s.spoolKey] = of.order.PushBack(s)
		m.epochs[s.proxy] = append(m.epochs[s.proxy], s.epoch)
	}
	of.spans += len(s.spans)
	if epochs := m.epochs[s.proxy]; len(epochs) > maxEpochs {
		m.forget(of, spoolKey{s.proxy, epochs[0]})
	}
	for of.spans > maxSpansOfNamespace && of.order.Len() > 1 {
		m.forget(of, of.order.Front().Value.(*spool).spoolKey)
	}
}

// forget forgets a spool of a namespace.
func (m *remembered) forget(of *spoolsOf, key spoolKey) {
	of.spans -= len(of.order.Remove(m.spools[key]).(*spool).spans)
	delete(m.spools, key)
	if m.epochs[key.proxy] = without(m.epochs[key.proxy], key.epoch); len(m.epochs[key.proxy]) == 0 {
		delete(m.epochs, key.proxy)
	}
}

// forgetSilent forgets those that sent nothing since before.
func (m *remembered) forgetSilent(before time.Time) {
	for namespace, of := range m.namespaces {
		for at := of.order.Front(); at != nil; {
			s := at.Value.(*spool)
			at = at.Next()
			if s.updated.Before(before) {
				m.forget(of, s.spoolKey)
			}
		}
		if of.order.Len() == 0 {
			delete(m.namespaces, namespace)
		}
	}
}

// all are the spools in the order of their transactions.
func (m *remembered) all() []*spool {
	out := make([]*spool, 0, len(m.spools))
	for _, at := range m.spools {
		out = append(out, at.Value.(*spool))
	}
	slices.SortFunc(out, func(a, b *spool) int { return cmp.Or(cmp.Compare(a.version, b.version), a.compare(b.spoolKey)) })
	return out
}

// without removes a number, of few.
func without(list []uint64, number uint64) []uint64 {
	if i := slices.Index(list, number); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
