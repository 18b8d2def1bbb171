package netcap

import (
	"net"
	"net/netip"
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

// Listen caps a listener. When All are there, who has most connections gives one to who would have fewer.
func Listen(l net.Listener, limits Limits) net.Listener {
	return &listener{Listener: l, limits: limits, open: NewShares(limits.All)}
}

type listener struct {
	net.Listener
	limits Limits
	open   *Shares
}

// Accept gives the next connection that is not too much.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := counted(c.RemoteAddr())
		if !peer.IsValid() || l.open.Held(peer) < l.limits.Each {
			if leave, ok := l.open.Take(peer, 1, func() { l.refuse(c) }); ok {
				return &conn{Conn: c, leave: leave}, nil
			}
		}
		l.refuse(c)
	}
}

func (l *listener) refuse(c net.Conn) {
	_ = c.Close()
	if l.limits.Refused != nil {
		l.limits.Refused(c.RemoteAddr())
	}
}

// counted is the peer that a connection counts for; of loopback it is nobody in particular.
func counted(addr net.Addr) netip.Prefix {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return netip.Prefix{}
	}
	return Peer(addr)
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
