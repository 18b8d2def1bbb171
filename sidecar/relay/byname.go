package relay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/sallyport/sallyport/xds/digest"
	"github.com/sallyport/sallyport/xds/ondemand"
)

// Where tables say so, the relay asks for rows by name (docs/adr/0080-rows-by-name.md): it holds, and follows, those in use, and knows by the digest which others
// there are. A name is TABLE/DOMAIN; the controller answers with the row that has that domain, and says of a name that nothing is for it as of what was removed.

const (
	// awayAfter is how long after the end of a stream to the controller its next one is waited for by who needs an answer.
	awayAfter = 3 * time.Second
	// mostAbsent is how many names are remembered of which the digest says that they may be there, and the controller that they are not.
	mostAbsent = 256
)

// ErrAway says that something could not be had since the controller does not answer.
var ErrAway = errors.New("the controller does not answer, and this pod has not used it before")

// errSlow says that who asked has waited for long enough, and the controller is there. It may answer yet.
var errSlow = errors.New("the controller has not answered yet")

// asks are what rows are there that are not held.
type asks struct {
	digest *digest.Set
	absent map[string]bool // names that the controller said nothing is for
}

// ask is somebody who waits until the controller has answered about names.
type ask struct {
	names []string
	done  chan struct{}
}

// digestWatch follows the digest.
func digestWatch(set *digest.Set) Watch {
	return Watch{TypeURL: digest.Type, Apply: func(changed []*discoveryv3.Resource, removed []string) map[string]error {
		return set.Apply(func(yield func(string, []byte) bool) {
			for _, r := range changed {
				if !yield(r.GetName(), r.GetResource().GetValue()) {
					return
				}
			}
		}, removed)
	}}
}

// wantsNamed says whether rows are to be asked for by name, as the tables say.
func (m *machine) wantsNamed() bool {
	if m.digest == nil || m.rows == nil {
		return false
	}
	for table, named := range m.rows.named {
		if named && m.rows.keep[table] > 0 {
			return true
		}
	}
	return false
}

// askAsTablesSay begins or ends to ask for rows by name, and sees to it that each table's first row is asked for.
func (m *machine) askAsTablesSay() {
	k := m.kind(VirtualHost)
	switch wants := m.wantsNamed(); {
	case wants && k.byName == nil:
		m.beginNamed(k)
	case wants:
		m.askForRows(k, m.firstRows()...)
	case k.byName != nil:
		m.endNamed(k)
	}
}

func (m *machine) firstRows() (names []string) {
	for table, keep := range m.rows.keep {
		if keep > 0 {
			names = append(names, table+"/"+ondemand.FirstRow)
		}
	}
	return names
}

// beginNamed forgets the rows that nobody uses, and follows the others.
func (m *machine) beginNamed(k *kind) {
	k.byName = map[string]struct{}{}
	m.rows.mu.Lock()
	m.rows.asks = &asks{digest: m.digest, absent: map[string]bool{}}
	m.rows.mu.Unlock()
	for name := range k.has {
		k.byName[name] = struct{}{}
	}
	for name, is := range m.rows.byName {
		if is.given || is.used.Load() != 0 {
			k.byName[name] = struct{}{}
		}
	}
	for _, name := range m.firstRows() {
		k.byName[name] = struct{}{}
	}
	m.dropUnused()
	gone := []string{wildcard}
	if m.echo != "" {
		gone, m.echo, m.awaits = append(gone, m.echo), "", false
	}
	if k.asked {
		m.tell(&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: k.url, ResourceNamesSubscribe: slices.Sorted(maps.Keys(k.byName)), ResourceNamesUnsubscribe: gone,
		})
	} else {
		m.ask(k)
	}
}

// endNamed asks for all rows. What is still under way of what was asked for by name is not the answer to that.
func (m *machine) endNamed(k *kind) {
	k.byName = nil
	names := []string{wildcard}
	if m.rows != nil && m.rows.echoes && k.asked {
		m.echoes++
		m.echo, m.awaits = ondemand.Echo+strconv.FormatUint(m.echoes, 10), true
		names = append(names, m.echo)
	}
	if m.rows != nil {
		m.rows.complete.Store(false)
		m.rows.mu.Lock()
		m.rows.asks = nil
		m.rows.mu.Unlock()
	}
	m.tellAsks()
	if k.asked {
		m.tell(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: k.url, ResourceNamesSubscribe: names})
	} else {
		m.ask(k)
	}
}

// allCame notes of an answer about rows whether the relay has all of them now.
func (m *machine) allCame(k *kind, resp *discoveryv3.DeltaDiscoveryResponse) {
	if m.awaits && slices.Contains(resp.GetRemovedResources(), m.echo) {
		m.awaits = false
	}
	m.rows.complete.Store(k.byName == nil && !m.awaits)
}

// holdsTables says whether tables have to wait for rows: Envoy is to have all rows of a table that asks for none before it has that, and
// of such a table the relay holds but some.
func (m *machine) holdsTables(resp *discoveryv3.DeltaDiscoveryResponse) bool {
	k := m.kind(VirtualHost)
	if m.rows == nil || !k.subscribed {
		return false
	}
	if len(m.tables) > 0 {
		return true
	}
	whole := slices.ContainsFunc(resp.GetResources(), func(t *discoveryv3.Resource) bool {
		return fetchedBy(t).keep == 0 && m.rows.keep[t.GetName()] > 0
	})
	if !whole || k.byName == nil && m.rows.complete.Load() {
		return false
	}
	if k.byName != nil {
		m.endNamed(k)
	}
	return true
}

// askForRows subscribes to names that are not subscribed to.
func (m *machine) askForRows(k *kind, names ...string) {
	var fresh []string
	for _, name := range names {
		if _, ok := k.byName[name]; !ok {
			k.byName[name] = struct{}{}
			fresh = append(fresh, name)
		}
	}
	slices.Sort(fresh)
	switch {
	case len(fresh) == 0:
	case k.asked:
		m.tell(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: k.url, ResourceNamesSubscribe: fresh})
	default:
		m.ask(k)
	}
}

// leaveRows ends subscriptions.
func (m *machine) leaveRows(k *kind, names ...string) {
	var gone []string
	for _, name := range names {
		if _, ok := k.byName[name]; ok {
			delete(k.byName, name)
			gone = append(gone, name)
		}
	}
	if slices.Sort(gone); len(gone) > 0 && k.asked {
		m.tell(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: k.url, ResourceNamesUnsubscribe: gone})
	}
}

// rowsCame follows what the controller said of rows: each is followed by its own name from now on, by whatever name it was asked for.
func (m *machine) rowsCame(k *kind, resp *discoveryv3.DeltaDiscoveryResponse) {
	if k.byName == nil {
		return
	}
	var own, others []string
	m.rows.mu.Lock()
	for _, r := range resp.GetResources() {
		own = append(own, r.GetName())
		delete(m.rows.asks.absent, r.GetName())
		is := m.rows.byName[r.GetName()]
		if is == nil {
			continue
		}
		for _, domain := range is.domains {
			if name := tableOf(is.name) + "/" + domain; name != is.name {
				delete(m.rows.asks.absent, name)
				others = append(others, name)
			}
		}
	}
	for _, name := range resp.GetRemovedResources() {
		if _, asked := k.byName[name]; !asked || strings.HasSuffix(name, "/"+ondemand.FirstRow) {
			continue
		}
		for old := range m.rows.asks.absent {
			if len(m.rows.asks.absent) < mostAbsent {
				break
			}
			delete(m.rows.asks.absent, old)
			others = append(others, old)
		}
		m.rows.asks.absent[name] = true
	}
	m.rows.mu.Unlock()
	m.askForRows(k, own...)
	m.leaveRows(k, others...)
	m.tellAsks()
}

// askAbout asks for names, for somebody who waits.
func (m *machine) askAbout(names []string) *ask {
	a := &ask{names: names, done: make(chan struct{})}
	if k := m.kind(VirtualHost); k.byName != nil {
		m.askForRows(k, names...)
	}
	if !m.answersAsk(a) {
		m.asking = append(m.asking, a)
	}
	return a
}

// answersAsk answers who waits for no answer any more.
func (m *machine) answersAsk(a *ask) bool {
	if m.rows != nil && m.rows.asks != nil && slices.ContainsFunc(a.names, func(name string) bool { return !m.rows.answered(name) }) {
		return false
	}
	close(a.done)
	return true
}

func (m *machine) tellAsks() { m.asking = slices.DeleteFunc(m.asking, m.answersAsk) }

// stopAsking forgets who waits no longer, and what nobody else waits for.
func (m *machine) stopAsking(gone *ask) {
	m.asking = slices.DeleteFunc(m.asking, func(a *ask) bool { return a == gone })
	k := m.kind(VirtualHost)
	if k.byName == nil {
		return
	}
	for _, name := range gone.names {
		waited := slices.ContainsFunc(m.asking, func(a *ask) bool { return slices.Contains(a.names, name) })
		if !waited && !m.rows.answered(name) {
			m.leaveRows(k, name)
		}
	}
}

// patience is how long who asks has to wait for a stream to the controller; one that is open is waited for longer.
func (m *machine) patience() (left time.Duration, open bool) {
	return awayAfter - m.now().Sub(m.lost), m.connected
}

// dropUnused forgets rows that Envoy is not given and nobody uses, where they can be asked for again.
func (m *machine) dropUnused() {
	k := m.kind(VirtualHost)
	if k.byName == nil {
		return
	}
	var gone []string
	for name, is := range m.rows.byName {
		if !is.given && is.used.Load() == 0 {
			gone = append(gone, name)
		}
	}
	for _, name := range gone {
		m.lostRow(k, name)
		delete(k.rejected, name)
		k.table.Remove(name)
	}
	m.leaveRows(k, gone...)
}

// forgotten says whether a row that Envoy has taken was let go of meanwhile.
func (m *machine) forgotten(k *kind, name string) bool {
	return k.byName != nil && m.rows.byName[name] == nil
}

// answered says whether the controller has said what a name is for.
func (r *rows) answered(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	table, domain, _ := strings.Cut(name, "/")
	return r.asks.absent[name] || slices.ContainsFunc(r.byDomain[domain], func(is *row) bool { return is.in(table) })
}

// knows says whether it is known which rows there are.
func (r *rows) knows() bool {
	r.mu.RLock()
	asks := r.asks
	r.mu.RUnlock()
	if asks != nil {
		return asks.digest.Whole()
	}
	return r.complete.Load()
}

// lacks gives the names that have to be asked for next, to know what hosts lead to in a table, or in each for "": of a host what it is by itself comes first, and then
// patterns, the longest first.
func (r *rows) lacks(table string, hosts []string) (names []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.asks == nil {
		return nil
	}
	for own, keep := range r.keep {
		if keep == 0 || table != "" && own != table {
			continue
		}
		for _, host := range hosts {
			if name := r.lacking(own, host); name != "" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lacking is the first name of a host's, in a table, that is to be asked for; "" where it is known what the host leads to.
func (r *rows) lacking(table, host string) string {
	if host == "" {
		return ""
	}
	first, domain := "", host
	next, stop := iter.Pull(patternsOver(host))
	defer stop()
	for more := true; more; domain, more = next() {
		if slices.ContainsFunc(r.byDomain[domain], func(is *row) bool { return is.in(table) }) {
			return "" // its own row; or a pattern's, with which came all that are below it: nothing longer is there
		}
		if name := table + "/" + domain; first == "" && !r.asks.absent[name] && r.asks.digest.May(table, domain) {
			first = name
		}
	}
	return first
}

// fetchRows asks the controller for what hosts lead to that the relay does not hold.
func (r *Relay) fetchRows(ctx context.Context, rows *rows, table string, hosts []string) error {
	for {
		names := rows.lacks(table, hosts)
		if len(names) == 0 {
			return nil
		}
		var a *ask
		var left time.Duration
		var open, begun bool
		if err := r.call(ctx, func() {
			a, begun = r.machine.askAbout(names), r.machine.kind(VirtualHost).subscribed
			left, open = r.machine.patience()
		}); err != nil {
			return err
		}
		var away <-chan time.Time
		if !open {
			timer := time.NewTimer(left)
			defer timer.Stop()
			away = timer.C
		}
		why := ErrAway
		select {
		case <-a.done:
			continue
		case <-away:
		case <-ctx.Done():
			if open {
				why = errSlow
			}
		}
		_ = r.call(context.WithoutCancel(ctx), func() { r.machine.stopAsking(a) })
		if !begun { // Envoy has asked for nothing yet, and so has the relay
			return errNotFetched
		}
		return fmt.Errorf("%s: %w", strings.Join(names, ", "), why)
	}
}
