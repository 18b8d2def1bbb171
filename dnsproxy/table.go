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
	host    string // lower-case, in wire format, as aliases are
	addrs   []netip.Addr
	aliases []string
	ttl     uint32
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
		edit.of(namespace).drop(wireOf(host))
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
	l := &line{host: wireOf(n.Host), ttl: n.TTL}
	if l.ttl == 0 {
		l.ttl = defaultNameTTL
	}
	if len(n.Addresses) > 0 {
		l.addrs = make([]netip.Addr, 0, len(n.Addresses))
	}
	for _, addr := range n.Addresses {
		if addr = addr.Unmap(); !slices.Contains(l.addrs, addr) {
			l.addrs = append(l.addrs, addr)
		}
	}
	for _, alias := range n.Aliases {
		l.aliases = append(l.aliases, wireOf(alias))
	}
	return l
}

func wireOf(host string) string {
	var scratch [256]byte
	return string(packet.AppendName(scratch[:0], host))
}

// holds gives the addresses whose reverse names are the line's host: a wildcard is nobody's name.
func (l *line) holds(yield func(address) bool) {
	if isWildcard(l.host) {
		return
	}
	for _, addr := range l.addrs {
		if !yield(addr.As16()) {
			return
		}
	}
}
