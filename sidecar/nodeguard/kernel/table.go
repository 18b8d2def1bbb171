package kernel

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

// socketBuffer holds a transaction and its acknowledgements, bytes: ten thousand Services take about half a MiB.
const socketBuffer = 8 << 20

// elementsAtOnce bounds the elements of one message, whose attribute holds 64 KiB.
const elementsAtOnce = 500

// Table is the guard's table. Its methods may be repeated, and are not for use by several goroutines at once.
type Table struct {
	// open makes a connection for one call.
	open func() (*nftables.Conn, error)
}

// Open gives the table of this process's network namespace, whether or not it exists.
func Open() *Table {
	return &Table{open: func() (*nftables.Conn, error) { return nftables.New(nftables.WithSockOptions(buffers)) }}
}

// In gives the table of the network namespace that the descriptor refers to.
func In(netns int) *Table {
	return &Table{open: func() (*nftables.Conn, error) {
		return nftables.New(nftables.WithNetNSFd(netns), nftables.WithSockOptions(buffers))
	}}
}

// buffers asks for as much as the kernel gives: with NET_ADMIN all of it.
func buffers(c *netlink.Conn) error {
	return errors.Join(c.SetWriteBuffer(socketBuffer), c.SetReadBuffer(socketBuffer))
}

var table = &nftables.Table{Name: nodeguard.Table, Family: nftables.TableFamilyINet}

// Replace writes the whole plan over what is there. Counters begin anew. The error is [ErrNoLogging] where the plan may do
// without its samples.
func (t *Table) Replace(p nodeguard.Plan) error {
	c, err := t.open()
	if err != nil {
		return explain(err)
	}
	c.AddTable(table) // so that there is one to delete
	c.DelTable(table)
	c.AddTable(table)
	for _, name := range nodeguard.Counters {
		c.AddObj(&nftables.CounterObj{Table: table, Name: name})
	}
	sets := map[string]*nftables.Set{}
	for _, s := range p.Sets {
		set := setOf(s)
		sets[s.Name] = set
		if err := c.AddSet(set, nil); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
		if err := inPieces(elements(s, s.Elements), func(e []nftables.SetElement) error { return c.SetAddElements(set, e) }); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	if err := addChains(c, p.Chains, sets); err != nil {
		return err
	}
	if err = c.Flush(); errors.Is(err, unix.ENOENT) && p.Samples() {
		return fmt.Errorf("%w: %w", ErrNoLogging, err)
	}
	return explain(err)
}

// Change carries out changes in one transaction. It fails, and changes nothing, when the table is not as they suppose.
func (t *Table) Change(changes []nodeguard.Change) error {
	c, err := t.open()
	if err != nil {
		return explain(err)
	}
	for _, change := range changes {
		set := setOf(change.Set)
		remove, add := change.Remove, change.Add
		if change.Set.Interval {
			// A network that replaces another may share a boundary with a third: written anew, none is missed.
			c.FlushSet(set)
			remove, add = nil, change.Set.Elements
		}
		err := inPieces(elements(change.Set, remove), func(e []nftables.SetElement) error { return c.SetDeleteElements(set, e) })
		if err == nil {
			err = inPieces(elements(change.Set, add), func(e []nftables.SetElement) error { return c.SetAddElements(set, e) })
		}
		if err != nil {
			return fmt.Errorf("set %s: %w", set.Name, err)
		}
	}
	return explain(c.Flush())
}

// Usable says why this process cannot use nftables, if so.
func (t *Table) Usable() error {
	c, err := t.open()
	if err == nil {
		_, err = find(c)
	}
	return explain(err)
}

// Clean removes the table and reports whether there was one.
func (t *Table) Clean() (bool, error) {
	c, err := t.open()
	if err != nil {
		return false, explain(err)
	}
	there, err := find(c)
	if err != nil || there == nil {
		return false, explain(err)
	}
	c.DelTable(table)
	return true, explain(c.Flush())
}

// find gives the table as the kernel has it, nil if there is none.
func find(c *nftables.Conn) (*nftables.Table, error) {
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		if t.Name == nodeguard.Table {
			return t, nil
		}
	}
	return nil, nil
}

// ErrNoLogging says that the kernel lacks something that the rules use, of which only the samples can be done without. See
// [nodeguard.Options.NoLog].
var ErrNoLogging = errors.New("nftables: the kernel lacks something that the rules use, probably nfnetlink_log")

// explain says what to do about an error of the kernel.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("nftables: %w: it takes the capability NET_ADMIN in the node's network namespace", err)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPROTONOSUPPORT):
		return fmt.Errorf("nftables: %w: this kernel has no nftables (5.7 or later is needed)", err)
	default:
		return fmt.Errorf("nftables: %w", err)
	}
}

// inPieces calls f with as many elements as a message holds. An interval's two elements stay together.
func inPieces(all []nftables.SetElement, f func([]nftables.SetElement) error) error {
	for len(all) > 0 {
		n := min(len(all), elementsAtOnce)
		if err := f(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}
