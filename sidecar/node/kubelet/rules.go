package kubelet

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/redirect"
)

// portsOf is a family's set of ports of pods.
func portsOf(t *nftables.Table) (*nftables.Set, error) {
	address := nftables.TypeIPAddr
	if t.Family == nftables.TableFamilyIPv6 {
		address = nftables.TypeIP6Addr
	}
	both, err := nftables.ConcatSetType(address, nftables.TypeInetService)
	return &nftables.Set{Table: t, Name: "ports", KeyType: both, Concatenation: true}, err
}

// Where addresses are in IP headers, in bytes (RFC 791, RFC 8200), and in which registers a look into the set begins: 1 is of 16 bytes, which are 8 to 11 of 4 each
// (linux/netfilter/nf_tables.h).
type header struct{ source, destination, length, portRegister uint32 }

var headers = map[redirect.Family]header{redirect.IPv4: {12, 16, 4, 9}, redirect.IPv6: {8, 24, 16, 2}}

// write has the family's table be as it should be; ports stay. By nft's words:
//
//	chain outgoing { type nat hook postrouting priority srcnat - 1; meta skuid 0 ip protocol tcp ip daddr . tcp dport @ports snat to 169.254.7.127 }
//	chain incoming { type filter hook prerouting priority raw; ip saddr 169.254.7.127 drop }
//
// What the node hands on for others has no user; who else says the address is not heard. The chain comes before those of network plugins, some of which give
// what the node sends to pods another address.
func (f family) write(c *nftables.Conn) error {
	at, own := headers[f.of], redirect.KubeletAddresses[f.of].AsSlice()
	c.AddTable(f.table)
	if err := c.AddSet(f.ports, nil); err != nil {
		return err
	}
	before := *nftables.ChainPriorityNATSource - 1
	outgoing := c.AddChain(&nftables.Chain{Name: "outgoing", Table: f.table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: &before})
	incoming := c.AddChain(&nftables.Chain{Name: "incoming", Table: f.table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRaw})
	c.FlushChain(outgoing)
	c.FlushChain(incoming)
	nfproto := uint32(unix.NFPROTO_IPV4)
	if f.of == redirect.IPv6 {
		nfproto = unix.NFPROTO_IPV6
	}
	c.AddRule(&nftables.Rule{Table: f.table, Chain: outgoing, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeySKUID, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: ownUser},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: tcp},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: at.destination, Len: at.length},
		&expr.Payload{DestRegister: at.portRegister, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Lookup{SourceRegister: 1, SetName: f.ports.Name, SetID: f.ports.ID},
		&expr.Immediate{Register: 1, Data: own},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: nfproto, RegAddrMin: 1},
	}})
	c.AddRule(&nftables.Rule{Table: f.table, Chain: incoming, Exprs: []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: at.source, Len: at.length},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: own},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}})
	return nil
}
