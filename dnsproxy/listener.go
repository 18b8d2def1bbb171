package dnsproxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sallyport/sallyport/dnsproxy/datagram"
)

// listener is one address of a view, for UDP and TCP.
type listener struct {
	view *view
	addr netip.AddrPort
	udp  []*datagram.Socket // all on addr; the kernel spreads the clients over them
	tcp  *net.TCPListener

	stopping atomic.Bool
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
}

// bindAttempts is how often a free port is looked for that is free for UDP and TCP alike.
const bindAttempts = 16

// readers is how many sockets and goroutines share the questions to an address.
func readers() int {
	if runtime.GOOS != "linux" {
		return 1
	}
	return min(runtime.GOMAXPROCS(0), maxReaders)
}

// maxReaders bounds the sockets for each address: four answer more than the network cards of most nodes bring.
const maxReaders = 4

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
	shared := readers() > 1
	first, err := datagram.Listen("udp"+family, local.String(), shared)
	if err != nil {
		return nil, err
	}
	l := &listener{view: v, udp: []*datagram.Socket{first}, addr: first.Addr(), conns: map[net.Conn]struct{}{}}
	// TCP next: it is not shared, so that a second program on the address fails here.
	if l.tcp, err = net.ListenTCP("tcp"+family, net.TCPAddrFromAddrPort(l.addr)); err != nil {
		l.close()
		return nil, err
	}
	for len(l.udp) < readers() {
		socket, err := datagram.Listen("udp"+family, l.addr.String(), shared)
		if err != nil {
			l.close()
			return nil, err
		}
		l.udp = append(l.udp, socket)
	}
	return l, nil
}

// stop ends the reading of new questions; answers can still be written.
func (l *listener) stop() {
	l.stopping.Store(true)
	past := time.Unix(1, 0)
	for _, socket := range l.udp {
		_ = socket.SetReadDeadline(past)
	}
	_ = l.tcp.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		_ = conn.SetReadDeadline(past)
	}
}

func (l *listener) close() {
	for _, socket := range l.udp {
		_ = socket.Close()
	}
	if l.tcp != nil {
		_ = l.tcp.Close()
	}
}
