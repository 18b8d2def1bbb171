package dnsproxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sallyport/sallyport/dnsproxy/datagram"
)

// listener is one address of a view, for UDP and TCP.
type listener struct {
	view  *view
	batch int // datagrams that are read at a time
	addr  netip.AddrPort
	udp   *datagram.Socket
	tcp   *net.TCPListener

	stopping atomic.Bool
	mu       sync.Mutex
	conns    map[*held]struct{}
}

// bindAttempts is how often a free port is looked for that is free for UDP and TCP alike.
const bindAttempts = 16

func bind(v *view, addr string) (*listener, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("not an address; write IP:PORT: %w", err)
	}
	for attempt := 1; ; attempt++ {
		l, err := bindOnce(v, addr)
		if err == nil || port != "0" || attempt == bindAttempts || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
}

func bindOnce(v *view, addr string) (*listener, error) {
	local, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, err
	}
	family := "" // [::] and no address are both families
	if local.IP.To4() != nil {
		family = "4" // 0.0.0.0 is IPv4 only
	}
	udp, err := datagram.Listen("udp"+family, local.String())
	if err != nil {
		return nil, err
	}
	l := &listener{view: v, batch: datagram.Size, udp: udp, addr: udp.Addr(), conns: map[*held]struct{}{}}
	if l.tcp, err = net.ListenTCP("tcp"+family, net.TCPAddrFromAddrPort(l.addr)); err != nil {
		udp.Close()
		return nil, err
	}
	return l, nil
}

// stop ends the reading of new questions; answers can still be written.
func (l *listener) stop() {
	l.stopping.Store(true)
	past := time.Unix(1, 0)
	_ = l.udp.SetReadDeadline(past)
	_ = l.tcp.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		_ = conn.SetReadDeadline(past)
	}
}

func (l *listener) close() {
	_ = l.udp.Close()
	_ = l.tcp.Close()
}
