package dnsproxy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/dnsproxy/packet"
)

// defaultNameTTL is the TTL of names that have none of their own, in seconds.
const defaultNameTTL = 30

// Table holds the names that are answered without asking anybody. Readers see one immutable state at a time; a
// change copies the few parts of the table that it touches (names.go).
type Table struct {
	mu    sync.Mutex // one writer
	state atomic.Pointer[tables]
	ready atomic.Bool
	open  chan struct{} // closed when ready
}

// line is one name, made ready to answer.
type line struct {
	host    []byte
	ttl     uint32
	addrs   []netip.Addr
	aliases [][]byte
}

func newTable() *Table {
	t := &Table{open: make(chan struct{})}
	t.state.Store(&tables{all: &names{}})
	return t
}

// SetReady ends the wait of questions that came before the first table did.
func (t *Table) SetReady() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ready.Swap(true) {
		close(t.open)
	}
}

// Ready tells whether SetReady was called.
func (t *Table) Ready() bool { return t.ready.Load() }

// Len is the number of hosts.
func (t *Table) Len() int { return t.state.Load().all.size }

// Apply replaces or adds upserts and drops the names in removed, which are written as name.Name.Resource says, in one step. A name that is not valid keeps its
// last good version; the error names each of them, and the others take effect.
func (t *Table) Apply(upserts []name.Name, removed []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	edit := t.state.Load().edit()
	for _, resource := range removed {
		namespace, host, own := strings.Cut(resource, "/")
		if !own {
			namespace, host = "", resource
		}
		edit.of(namespace).drop(packet.AppendName(nil, host))
	}
	var errs []error
	for _, n := range upserts {
		err := n.Validate()
		if err == nil && n.Defaults != nil {
			err = fmt.Errorf("%q is no line of the table", n.Host)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("name table: %w", err))
			continue
		}
		edit.of(n.Namespace).add(newLine(n))
	}
	t.state.Store(edit.done())
	return errors.Join(errs...)
}

func newLine(n name.Name) *line {
	l := &line{host: packet.AppendName(nil, n.Host), ttl: n.TTL}
	if l.ttl == 0 {
		l.ttl = defaultNameTTL
	}
	for _, addr := range n.Addresses {
		if addr = addr.Unmap(); !slices.Contains(l.addrs, addr) {
			l.addrs = append(l.addrs, addr)
		}
	}
	for _, alias := range n.Aliases {
		l.aliases = append(l.aliases, packet.AppendName(nil, alias))
	}
	return l
}

// claimed lists the keys beside its host under which l is found: its aliases, and for a PTR question its addresses.
func (l *line) claimed() [][]byte {
	keys := slices.Clone(l.aliases)
	if isWildcard(l.host) {
		return keys
	}
	for _, addr := range l.addrs {
		keys = append(keys, reverseName(addr))
	}
	return keys
}
