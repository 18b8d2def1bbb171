package wire

import (
	"net/netip"
	"strings"
)

// Leaving is what TagTunnel says of a connection that leaves where no exit is, whose bytes nobody reads: which one it is, and what its table was asked about it. A value
// of it may be a format string of Envoy's, by which Tag is one.
type Leaving struct {
	Local, Client string // its two ends at the proxy
	Kind          string // KindTLS or KindTCP
	To            string // the address that the client connected to
	Table         string // that was asked: the way to it, or its name
	Range         string // what was asked for last, "host:port"; may be ""
	In            string // the namespace whose registration is meant; may be ""
}

// LeavingLocal and LeavingClient are format strings for a connection's own two ends.
const (
	LeavingLocal  = "%DOWNSTREAM_DIRECT_LOCAL_ADDRESS%"
	LeavingClient = "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%"
)

const leavingParts = 7

// Tag is the tag's value.
func (l Leaving) Tag() string {
	parts := [leavingParts]string{l.Local, l.Client, l.Kind, l.To, l.Table, l.Range, l.In}
	for i := range parts {
		if parts[i] == "" {
			parts[i] = "-" // as Envoy writes what it does not know
		}
	}
	return strings.Join(parts[:], " ")
}

// ParseLeaving reads the tag's value; false where it is none, or its ends are not those of a connection of the network's.
func ParseLeaving(tag string) (l Leaving, local, client netip.AddrPort, is bool) {
	parts := strings.Split(tag, " ")
	if len(parts) != leavingParts {
		return l, local, client, false
	}
	for i := range parts {
		if parts[i] == "-" {
			parts[i] = ""
		}
	}
	l = Leaving{Local: parts[0], Client: parts[1], Kind: parts[2], To: parts[3], Table: parts[4], Range: parts[5], In: parts[6]}
	local, err := netip.ParseAddrPort(l.Local)
	client, bad := netip.ParseAddrPort(l.Client)
	return l, local, client, err == nil && bad == nil
}
