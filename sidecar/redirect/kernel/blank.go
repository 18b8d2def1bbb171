package kernel

import (
	"errors"
	"os"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/redirect"
)

// blank says whether there are no tables of a family in the network namespace of the calling thread, of the kind that the programs write, so that they need not be asked what
// is in them. A pod that is taken in before it starts has none. In doubt it does not say so.
func (p programs) blank(f redirect.Family) bool {
	if p.mode == legacy {
		return noTables(f)
	}
	return noNFTables(f)
}

// noTables asks x_tables: what iptables-legacy-save looks at, too.
func noTables(f redirect.Family) bool {
	file := "/proc/thread-self/net/ip_tables_names"
	if f == redirect.IPv6 {
		file = "/proc/thread-self/net/ip6_tables_names"
	}
	names, err := os.ReadFile(file)
	return errors.Is(err, os.ErrNotExist) || err == nil && len(names) == 0
}

// noNFTables asks nf_tables (NFT_MSG_GETTABLE of linux/netfilter/nf_tables.h). iptables-nft has its tables in those of the family.
func noNFTables(f redirect.Family) bool {
	list := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETTABLE, unix.NLM_F_DUMP)
	list.AddData(&nl.Nfgenmsg{NfgenFamily: nfFamily(f)})
	tables, err := list.Execute(unix.NETLINK_NETFILTER, 0)
	return err == nil && len(tables) == 0
}
