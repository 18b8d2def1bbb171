package outside

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// maxSightings bounds how many requests, and how many connections, are remembered.
const maxSightings = 100_000

// Sighting is one request as a server of the outside saw it.
type Sighting struct {
	Time   time.Time
	Scheme string // "http" or "https"
	SNI    string // of the connection, with https
	Host   string // Host header, or HTTP/2's :authority
	Method string
	Path   string
	Peer   netip.AddrPort // who connected
	Local  netip.AddrPort // where to
	Proto  string         // "HTTP/1.1", "HTTP/2.0"
}

// String is for messages.
func (s Sighting) String() string {
	sni := ""
	if s.Scheme == "https" {
		sni = " with SNI " + s.SNI
	}
	return fmt.Sprintf("%s %s for host %s at %s from %s%s", s.Scheme, s.Method, s.Host, s.Local, s.Peer.Addr(), sni)
}

// guestbook is what the servers remember.
type guestbook struct {
	mu          sync.Mutex
	sightings   []Sighting
	connections []Connection
}

// Connection is one accepted connection, whether or not a request came over it.
type Connection struct {
	Time        time.Time
	Peer, Local netip.AddrPort
}

func (g *guestbook) saw(s Sighting) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.sightings) < maxSightings {
		g.sightings = append(g.sightings, s)
	}
}

func (g *guestbook) accepted(c Connection) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.connections) < maxSightings {
		g.connections = append(g.connections, c)
	}
}

// Sightings gives the requests whose path is the given one.
func (g *guestbook) Sightings(path string) []Sighting {
	g.mu.Lock()
	defer g.mu.Unlock()
	var found []Sighting
	for _, s := range g.sightings {
		if s.Path == path {
			found = append(found, s)
		}
	}
	return found
}

// ConnectionsTo counts the connections that an address has accepted.
func (g *guestbook) ConnectionsTo(local netip.Addr) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, c := range g.connections {
		if c.Local.Addr() == local {
			n++
		}
	}
	return n
}

// countingListener writes every accepted connection into the guestbook.
type countingListener struct {
	net.Listener
	book *guestbook
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.book.accepted(Connection{Time: time.Now(), Peer: addrPort(c.RemoteAddr()), Local: addrPort(c.LocalAddr())})
	}
	return c, err
}

func addrPort(a net.Addr) netip.AddrPort {
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}
