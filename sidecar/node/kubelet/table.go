package kubelet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/node/cni"
	"github.com/sallyport/sallyport/sidecar/redirect"
)

// Name is that of our tables, one of each family.
const Name = "sallyport_kubelet"

// Table is what the node's network holds of ours. Its methods may be repeated, and are not for use by several goroutines at once.
type Table struct {
	network  *os.File
	families []family
}

// family is what is written for one.
type family struct {
	of    redirect.Family
	table *nftables.Table
	ports *nftables.Set // of pods: address and port
}

// atOnce is how many elements a message holds: less than 64 KiB of them.
const atOnce = 500

// Open writes the tables, with ports as they are there, into the network namespace at a path. Whoever else has opened it may go on.
func Open(path string, ipv6 bool) (*Table, error) {
	network, err := cni.OpenNetwork(path)
	if err != nil {
		return nil, fmt.Errorf("the node's network namespace, %s: %w", path, err)
	}
	t := &Table{network: network}
	for of, as := range map[redirect.Family]nftables.TableFamily{redirect.IPv4: nftables.TableFamilyIPv4, redirect.IPv6: nftables.TableFamilyIPv6} {
		if of == redirect.IPv6 && !ipv6 {
			continue
		}
		f := family{of: of, table: &nftables.Table{Name: Name, Family: as}}
		if f.ports, err = portsOf(f.table); err != nil {
			return nil, errors.Join(err, network.Close())
		}
		t.families = append(t.families, f)
	}
	if err := t.change(func(c *nftables.Conn, f family) error { return f.write(c) }); err != nil {
		return nil, errors.Join(err, network.Close())
	}
	return t, nil
}

// Close gives the network back. What is written stays.
func (t *Table) Close() error { return t.network.Close() }

// Set says which ports of pods the kubelet connects to, and no others, in one step for each family.
func (t *Table) Set(ports []netip.AddrPort) error {
	return t.change(func(c *nftables.Conn, f family) error {
		c.FlushSet(f.ports)
		return f.add(c, ports)
	})
}

// Add says some more.
func (t *Table) Add(ports []netip.AddrPort) error {
	return t.change(func(c *nftables.Conn, f family) error { return f.add(c, ports) })
}

// Remove takes the tables away.
func (t *Table) Remove() error {
	return t.change(func(c *nftables.Conn, f family) error {
		c.AddTable(f.table) // so that there is one to delete
		c.DelTable(f.table)
		return nil
	})
}

// change carries something out in the node's network, all families in one transaction.
func (t *Table) change(do func(*nftables.Conn, family) error) error {
	c, err := nftables.New(nftables.WithNetNSFd(int(t.network.Fd())))
	if err != nil {
		return fmt.Errorf("nftables of the node: %w", err)
	}
	for _, f := range t.families {
		if err := do(c, f); err != nil {
			return fmt.Errorf("nftables of the node, %s: %w", f.of, err)
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("nftables of the node: %w", err)
	}
	return nil
}

// add puts those of the family among the ports.
func (f family) add(c *nftables.Conn, ports []netip.AddrPort) error {
	var elements []nftables.SetElement
	for _, p := range ports {
		if p.Addr().Is6() == (f.of == redirect.IPv6) {
			elements = append(elements, nftables.SetElement{Key: key(p)})
		}
	}
	for len(elements) > 0 {
		n := min(len(elements), atOnce)
		if err := c.SetAddElements(f.ports, elements[:n]); err != nil {
			return err
		}
		elements = elements[n:]
	}
	return nil
}

// key is an address and a port as the kernel keeps them: each begins at a multiple of four bytes.
func key(p netip.AddrPort) []byte {
	return append(binary.BigEndian.AppendUint16(p.Addr().AsSlice(), p.Port()), 0, 0)
}

// ownUser is the kubelet's: root of the node.
var ownUser = binary.NativeEndian.AppendUint32(nil, 0)

// tcp is its number in IP headers.
var tcp = []byte{unix.IPPROTO_TCP}
