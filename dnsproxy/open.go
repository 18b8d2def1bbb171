package dnsproxy

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/sallyport/sallyport/dnsproxy/datagram"
)

// Open answers a view's questions on further sockets, of the caller's making, from now on until end is called or Serve ends; then they are
// closed. A node's agent opens them in its pods' networks, and says which pods those are: the table may have names for their namespaces alone, and what one
// pod asks for leaves room for others. Their addresses do not tell them apart: in each network they are the same.
func (s *Server) Open(view string, asker Asker, packets net.PacketConn, streams net.Listener) (end func(), err error) {
	v := s.view(view)
	udp, isUDP := packets.(*net.UDPConn)
	tcp, isTCP := streams.(*net.TCPListener)
	if v == nil || !isUDP || !isTCP {
		return nil, fmt.Errorf("dns: view %q: unknown, or not a UDP and a TCP socket", view)
	}
	socket, err := datagram.Of(udp)
	if err != nil {
		return nil, err
	}
	of := *v
	of.Asker, of.asker, of.of, of.namespace = &asker, asker.Key(), asker.Key(), asker.Namespace
	l := &listener{view: &of, batch: datagram.Small, udp: socket, tcp: tcp, addr: socket.Addr(), conns: map[*held]struct{}{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base.Err() != nil {
		return nil, errors.New("dns: the server has stopped")
	}
	s.opened = append(s.opened, l)
	s.reading.Go(func() { l.serveUDP(s.base) })
	s.reading.Go(func() { l.serveTCP(s.base) })
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.opened = slices.DeleteFunc(s.opened, func(o *listener) bool { return o == l })
		s.mu.Unlock()
		l.stop()
		l.close()
	}), nil
}
