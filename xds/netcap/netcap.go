package netcap

import (
	"net"
	"net/netip"
	"sync"
)

// Limits are numbers of open connections.
type Limits struct {
	All int // of everybody
	// Each is of one address; of IPv6 the /64 that it is in, whose addresses one host can have all. Loopback is not
	// counted here: what connects from there is not kept apart by its address.
	Each int
	// Refused is told of each connection that was closed; nil: nobody cares. It must not block.
	Refused func(peer net.Addr)
}

// Listen caps a listener.
func Listen(l net.Listener, limits Limits) net.Listener {
	return &listener{Listener: l, limits: limits, of: map[netip.Prefix]int{}}
}

type listener struct {
	net.Listener
	limits Limits

	mu  sync.Mutex
	all int
	of  map[netip.Prefix]int
}

// Accept gives the next connection that is not too much.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := peerOf(c.RemoteAddr())
		if l.take(peer) {
			return &conn{Conn: c, leave: sync.OnceFunc(func() { l.leave(peer) })}, nil
		}
		_ = c.Close()
		if l.limits.Refused != nil {
			l.limits.Refused(c.RemoteAddr())
		}
	}
}

func (l *listener) take(peer netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.limits.All || (peer.IsValid() && l.of[peer] >= l.limits.Each) {
		return false
	}
	l.all++
	if peer.IsValid() {
		l.of[peer]++
	}
	return true
}

func (l *listener) leave(peer netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if !peer.IsValid() {
		return
	}
	if l.of[peer]--; l.of[peer] == 0 {
		delete(l.of, peer)
	}
}

// peerOf is what counts as one peer; the zero prefix is nobody in particular.
func peerOf(addr net.Addr) netip.Prefix {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if !ip.IsValid() || ip.IsLoopback() {
		return netip.Prefix{}
	}
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// conn leaves when it is closed.
type conn struct {
	net.Conn
	leave func()
}

// Close closes it, and makes room for another one.
func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
