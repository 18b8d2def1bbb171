package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// usedType is the table on disk of the rows in use; a resource's version is when it was used last, in seconds since 1970.
const usedType = "type.googleapis.com/sallyport.relay.v1.Used"

// errGone ends the wait for a row that Envoy was not given after all.
var errGone = errors.New("it was removed meanwhile, or Envoy's stream ended")

// use is somebody who waits for rows.
type use struct {
	rows []*row
	done chan error // has room for the one answer
}

// seeTables reads of route tables, before Envoy gets them, whether their rows are given when they are used. Before a table of which
// Envoy needs all rows it gets those that it lacks.
func (m *machine) seeTables(tables []*discoveryv3.Resource, removed []string) {
	whole := false
	for _, t := range tables {
		by := fetchedBy(t)
		if m.rows == nil && by.keep == 0 {
			continue // the usual case: nothing is kept of them
		}
		if m.rows == nil {
			m.fetchRows()
		}
		m.rows.mu.Lock()
		m.rows.keep[t.GetName()], m.rows.named[t.GetName()] = by.keep, by.named
		m.rows.echoes = m.rows.echoes || by.echoes
		m.rows.mu.Unlock()
		whole = whole || by.keep == 0
	}
	if m.rows == nil {
		return
	}
	m.rows.mu.Lock()
	for _, name := range removed {
		delete(m.rows.keep, name)
		delete(m.rows.named, name)
	}
	most := time.Duration(0)
	for _, keep := range m.rows.keep {
		most = max(most, keep)
	}
	m.rows.mu.Unlock()
	m.askAsTablesSay()
	if most == 0 {
		m.rows.scatter()
		m.rows = nil
	}
	m.published.Store(m.rows)
	if k := m.kind(VirtualHost); whole && k.subscribed && k.answered {
		m.serveNow(k)
	}
}

// fetchRows begins to tell rows in use from others: in use are those that Envoy has, and those that were when the agent ended.
func (m *machine) fetchRows() {
	m.rows = newRows()
	k, used := m.kind(VirtualHost), m.store.Table(usedType)
	m.rows.complete.Store(k.table.Known())
	for _, res := range m.bodies(k) {
		is := m.rows.put(res)
		if text, ok := used.Version(is.name); ok {
			if at, err := strconv.ParseInt(text, 10, 64); err == nil {
				m.take(is, time.Unix(at, 0))
			}
		}
	}
	m.adopt(k)
}

// adopt takes what Envoy has for used now.
func (m *machine) adopt(k *kind) {
	if m.rows == nil || k.url != VirtualHost {
		return
	}
	for name, version := range k.has {
		is := m.rows.byName[name]
		if is == nil {
			continue
		}
		if held, ok := k.table.Version(name); ok && held == version {
			is.ready.Store(true)
		}
		if is.used.Load() == 0 && !is.always() {
			m.take(is, m.now())
		}
	}
}

// take has a row in use, and gives what Envoy has to be given now: it, and what a pattern's row would hide.
func (m *machine) take(is *row, at time.Time) (given []*row) {
	is.used.Store(at.Unix())
	m.note(is)
	if is.given {
		return nil
	}
	m.rows.mu.Lock()
	defer m.rows.mu.Unlock()
	for _, one := range append(m.rows.covered(is), is) {
		if !one.given {
			one.given = true
			given = append(given, one)
		}
	}
	return given
}

// note writes down when a row was used last, as exactly as it matters.
func (m *machine) note(is *row) {
	used, at := m.store.Table(usedType), is.used.Load()
	text, _ := used.Version(is.name)
	was, err := strconv.ParseInt(text, 10, 64)
	if grain := int64(m.rows.keep[tableOf(is.name)].Seconds() / 24); err != nil || at-was > grain {
		used.Put(&discoveryv3.Resource{Name: is.name, Version: strconv.FormatInt(at, 10)})
	}
}

// holdsRow keeps a row that Envoy is not given: it is on disk for when it is used.
func (m *machine) holdsRow(k *kind, r *discoveryv3.Resource) bool {
	if m.rows == nil || k.url != VirtualHost {
		return false
	}
	is := m.rows.put(r)
	if _, has := k.has[r.GetName()]; has && !is.given {
		m.take(is, m.now())
	}
	if m.rows.gives(r.GetName()) {
		return false
	}
	if held, ok := k.table.Version(r.GetName()); !ok || held != r.GetVersion() {
		delete(k.rejected, r.GetName())
		k.table.Put(r)
	}
	return true
}

// gives says whether Envoy is given a resource that it asks for.
func (m *machine) gives(k *kind, name string) bool {
	return m.rows == nil || k.url != VirtualHost || m.rows.gives(name)
}

// lostRow forgets a row that is gone.
func (m *machine) lostRow(k *kind, name string) {
	if m.rows != nil && k.url == VirtualHost {
		m.rows.remove(name)
		m.store.Table(usedType).Remove(name)
	}
}

// use gives Envoy rows, and says who waits for them.
func (m *machine) use(list []*row) *use {
	k, u := m.kind(VirtualHost), &use{rows: list, done: make(chan error, 1)}
	var wanted []*row
	for _, is := range list {
		if m.rows != nil && m.rows.byName[is.name] == is {
			wanted = append(append(wanted, is), m.take(is, m.now())...)
		}
	}
	if m.rows != nil && k.subscribed && k.answered { // else it gets them when it asks
		m.gather(k, wanted)
	}
	if !m.over(u) {
		m.uses = append(m.uses, u)
	}
	return u
}

// over answers who waits for rows about all of which Envoy has given its word. One that has not been there yet is waited for.
func (m *machine) over(u *use) bool {
	k := m.kind(VirtualHost)
	var problem error
	for _, is := range u.rows {
		switch why, refused := k.rejected[is.name]; {
		case is.ready.Load():
		case !k.subscribed || !k.answered || is.gathered || k.flies(is.name):
			return false
		case refused:
			problem = errors.Join(problem, fmt.Errorf("%s: Envoy refused it: %s", is.name, why.Reason))
		default:
			problem = errors.Join(problem, fmt.Errorf("%s: %w", is.name, errGone))
		}
	}
	u.done <- problem
	return true
}

// tellUses answers all who wait for no more.
func (m *machine) tellUses() { m.uses = slices.DeleteFunc(m.uses, m.over) }

// giveUp forgets who waits no longer.
func (m *machine) giveUp(gone *use) {
	m.uses = slices.DeleteFunc(m.uses, func(u *use) bool { return u == gone })
}

// flies says whether a resource is on its way to Envoy.
func (k *kind) flies(name string) bool {
	return slices.ContainsFunc(k.inflight, func(j *job) bool {
		return slices.ContainsFunc(j.resources, func(r *discoveryv3.Resource) bool { return r.GetName() == name })
	})
}

// rowsGone notes that no Envoy is there to have rows.
func (m *machine) rowsGone() {
	if m.rows != nil {
		m.rows.scatter()
		for _, is := range m.rows.byName {
			is.ready.Store(false)
		}
	}
	m.tellUses()
}

// settleRow notes whether Envoy has a row, as it was sent or as it was before.
func (m *machine) settleRow(k *kind, name string, has bool) {
	if m.rows == nil || k.url != VirtualHost {
		return
	}
	if is := m.rows.byName[name]; is != nil {
		is.ready.Store(has && is.given)
	}
}

// sweep takes back from Envoy what is not used any more, and writes down what is.
func (m *machine) sweep() {
	if m.rows == nil {
		return
	}
	now, stale := m.now(), m.rows.stale
	if m.open != nil && m.rows.anyDue(now) {
		m.open(func(table, host string) {
			for _, is := range m.rows.find(table, host) {
				is.touch(now)
			}
		})
	}
	for name, is := range m.rows.byName {
		keep := m.rows.keep[tableOf(name)]
		switch at := is.used.Load(); {
		case at == 0 || keep == 0:
		case !is.due(keep, now):
			m.note(is)
		case is.used.CompareAndSwap(at, 0): // else it was used just now
			m.store.Table(usedType).Remove(name)
			stale = true
		}
	}
	if m.rows.stale = false; stale {
		m.release()
	}
	m.dropUnused()
}

// release takes back rows that are not in use, and that no pattern's row in use would hide.
func (m *machine) release() {
	k := m.kind(VirtualHost)
	var gone []string
	m.rows.mu.Lock()
	for name, is := range m.rows.byName {
		if !is.given || is.used.Load() != 0 || is.always() || m.rows.keep[tableOf(name)] == 0 || m.rows.below(is) {
			continue
		}
		is.given = false
		is.ready.Store(false)
		if _, has := k.has[name]; has {
			gone = append(gone, name)
		}
	}
	m.rows.mu.Unlock()
	if slices.Sort(gone); len(gone) > 0 {
		m.send(k, &job{released: gone})
	}
}

// errNotFetched answers questions about a table of which the agent does not know that its rows are fetched, or which there are.
var errNotFetched = errors.New("the agent has not been told what there is")

// Use gives Envoy the virtual hosts that hosts of a table lead to, and returns when Envoy has taken them. A host that nobody registered leads to
// none, which is no error; whatever is not known is one.
func (r *Relay) Use(ctx context.Context, table string, hosts ...string) error {
	rows := r.machine.published.Load()
	if rows == nil || !rows.knows() || !rows.fetches(table) {
		return errNotFetched
	}
	if wait := r.uses(rows, table, hosts); wait != nil {
		return wait(ctx)
	}
	return nil
}

// Uses is Use for all tables, in two steps: it notes the use, and gives what can be waited for; nil where Envoy has everything, or
// is given everything anyway.
func (r *Relay) Uses(host string) func(context.Context) error {
	if rows := r.machine.published.Load(); rows != nil {
		return r.uses(rows, "", []string{host})
	}
	return nil
}

// Used notes that a host of a table, or of each for "", was used, where Envoy has been given what there is for it: that stays for longer. It is cheap, and waits for nobody.
func (r *Relay) Used(table, host string) {
	if rows := r.machine.published.Load(); rows != nil {
		rows.used(table, []string{host})
	}
}

// Fetches says whether Envoy is given virtual hosts when they are used.
func (r *Relay) Fetches() bool { return r.machine.published.Load() != nil }

func (r *Relay) uses(rows *rows, table string, hosts []string) func(context.Context) error {
	found, ready := rows.used(table, hosts)
	if ready && (table == "" && len(found) > 0 || len(rows.lacks(table, hosts)) == 0) {
		return nil
	}
	return func(ctx context.Context) error {
		asked := r.fetchRows(ctx, rows, table, hosts)
		found, ready := rows.used(table, hosts)
		if asked != nil && (table != "" || len(found) == 0) { // of a name something is enough: the rest is asked for by who needs it
			return asked
		}
		if ready {
			return nil
		}
		var u *use
		if err := r.call(ctx, func() { u = r.machine.use(found) }); err != nil {
			return err
		}
		select {
		case err := <-u.done:
			return err
		case <-ctx.Done():
			_ = r.call(context.WithoutCancel(ctx), func() { r.machine.giveUp(u) })
			return fmt.Errorf("no word of Envoy's: %w", ctx.Err())
		}
	}
}

// used gives the rows that hosts lead to, which are used now, and says whether Envoy has all of them.
func (r *rows) used(table string, hosts []string) (found []*row, ready bool) {
	now := time.Now()
	ready = true
	for _, host := range hosts {
		for _, is := range r.find(table, host) {
			is.touch(now)
			found, ready = append(found, is), ready && is.ready.Load()
		}
	}
	return found, ready
}
