package verify

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
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

// takenHere says who in this network namespace has the other end of a connection from local to remote. A redirected connection
// ends in a socket here, which the kernel lists with our address as its remote one, and with a local address that is not the
// one that was dialled.
func takenHere(local, remote netip.AddrPort) (Taken, error) {
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(filepath.Join(procNet, name))
		if os.IsNotExist(err) && name == "tcp6" {
			continue
		} else if err != nil {
			return "", err
		}
		at, err := otherEnd(f, local)
		_ = f.Close()
		if err != nil {
			return "", err
		}
		switch {
		case !at.IsValid() || at == remote:
		case at.Port() == proxyPort:
			return ByProxy, nil
		case at.Port() == resolverPort:
			return ByResolver, nil
		default:
			return Taken(fmt.Sprintf("port %d of this pod", at.Port())), nil
		}
	}
	return "", nil
}

// otherEnd looks through a table of sockets, as proc(5) describes /proc/net/tcp, for the one whose remote address is ours; it
// gives that socket's local address.
func otherEnd(table io.Reader, ours netip.AddrPort) (netip.AddrPort, error) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.Contains(fields[1], ":") {
			continue // the heading
		}
		remote, err := kernelAddr(fields[2])
		if err != nil {
			return netip.AddrPort{}, err
		}
		if remote == ours {
			return kernelAddr(fields[1])
		}
	}
	return netip.AddrPort{}, lines.Err()
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
