package verify

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Ports at which a pod's rules hand connections over (Istio's numbers).
const (
	proxyPort    = 15001
	resolverPort = 15053
)

// procNet is where the kernel shows this network namespace (proc(5)).
const procNet = "/proc/net"

// errOver says that a connection ended before anybody could be seen at its other end.
var errOver = errors.New("it was over at once")

// findTaker says who in this network namespace has the other end of a connection from local to remote. A redirected connection
// ends in a socket here, which the kernel lists with our address as its remote one, and with a local address that is not the
// one that was dialled. Where another connection that was redirected there had our port a moment ago, the kernel's NAT gives ours another one
// at that end, and nobody is seen: see Env.dial.
func findTaker(local, remote netip.AddrPort) (Taken, error) {
	var found pair
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(filepath.Join(procNet, name))
		if os.IsNotExist(err) && name == "tcp6" {
			continue
		} else if err != nil {
			return "", err
		}
		err = found.find(f, local)
		_ = f.Close()
		if err != nil {
			return "", err
		}
	}
	switch at := found.other; {
	case !at.IsValid() && !found.open: // whoever took it has reset it already
		return "", errOver
	case !at.IsValid(), at == remote:
		return "", nil
	case at.Port() == proxyPort:
		return ByProxy, nil
	case at.Port() == resolverPort:
		return ByResolver, nil
	default:
		return Taken(fmt.Sprintf("port %d of this pod", at.Port())), nil
	}
}

// pair is what tables of sockets show of the two ends of a connection.
type pair struct {
	open  bool           // our own end is established
	other netip.AddrPort // the local address of the other end, if that is here
}

// established is the state of a socket in the kernel's tables.
const established = "01"

// find looks through a table of sockets, as proc(5) describes /proc/net/tcp, for our end of a connection and for the one
// whose remote address is ours.
func (p *pair) find(table io.Reader, ours netip.AddrPort) error {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.Contains(fields[1], ":") {
			continue // the heading
		}
		local, err := kernelAddr(fields[1])
		if err != nil {
			return err
		}
		remote, err := kernelAddr(fields[2])
		if err != nil {
			return err
		}
		switch ours {
		case remote:
			p.other = local
		case local:
			p.open = fields[3] == established
		}
	}
	return lines.Err()
}

// kernelAddr reads ADDRESS:PORT in hexadecimal; the address is in words of the machine's byte order.
func kernelAddr(text string) (netip.AddrPort, error) {
	addr, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(addr)
	if err != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address of a socket", text)
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is no address of a socket", text)
	}
	ip, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), nil
}
