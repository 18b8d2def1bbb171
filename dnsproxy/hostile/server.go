package hostile

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// Behaviour answers one question, or does not. It may take its time until w.Closed.
type Behaviour func(w *Writer, req *dns.Msg)

// Config of a Server.
type Config struct {
	UDP, TCP Behaviour   // nil: Silent
	TLS      *tls.Config // TCP is TLS
}

// Server answers on one port of the loopback until the test ends.
type Server struct {
	Addr netip.AddrPort

	config Config
	closed chan struct{}
	work   sync.WaitGroup

	mu    sync.Mutex
	asked []Asked
	conns map[net.Conn]bool
	count int // of connections ever
}

// Asked is a question as it arrived.
type Asked struct {
	Req     *dns.Msg
	Network string // udp, tcp
	From    netip.AddrPort
}

// Writer is the way back for one question.
type Writer struct {
	Network string
	Closed  <-chan struct{} // the test is over

	from net.Addr
	udp  net.PacketConn
	tcp  net.Conn
	mu   *sync.Mutex
}

// Send sends wire, framed by TCP.
func (w *Writer) Send(wire []byte) {
	if w.udp != nil {
		_, _ = w.udp.WriteTo(wire, w.from)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.tcp.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...))
}

// Hangup ends the connection.
func (w *Writer) Hangup() {
	if w.tcp != nil {
		w.tcp.Close()
	}
}

// Start runs a server.
func Start(t testing.TB, config Config) *Server {
	t.Helper()
	s := &Server{config: config, closed: make(chan struct{}), conns: map[net.Conn]bool{}}
	if s.config.UDP == nil {
		s.config.UDP = Silent
	}
	if s.config.TCP == nil {
		s.config.TCP = Silent
	}
	udp, tcp := listen(t)
	s.Addr = netip.MustParseAddrPort(udp.LocalAddr().String())
	s.work.Go(func() { s.serveUDP(udp) })
	s.work.Go(func() { s.serveTCP(tcp) })
	t.Cleanup(func() {
		close(s.closed)
		udp.Close()
		tcp.Close()
		s.mu.Lock()
		for conn := range s.conns {
			conn.Close()
		}
		s.mu.Unlock()
		s.work.Wait()
	})
	return s
}

// listen finds a port that is free by UDP and TCP.
func listen(t testing.TB) (net.PacketConn, net.Listener) {
	t.Helper()
	for attempt := 0; ; attempt++ {
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		tcp, err := net.Listen("tcp", udp.LocalAddr().String())
		if err == nil {
			return udp, tcp
		}
		udp.Close()
		if attempt > 10 {
			t.Fatal(err)
		}
	}
}

func (s *Server) serveUDP(conn net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		req := new(dns.Msg)
		if req.Unpack(buf[:n]) != nil {
			continue
		}
		s.note(req, from)
		s.work.Go(func() { s.config.UDP(&Writer{Network: "udp", Closed: s.closed, from: from, udp: conn}, req) })
	}
}

func (s *Server) serveTCP(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if s.config.TLS != nil {
			conn = tls.Server(conn, s.config.TLS)
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.count++
		s.mu.Unlock()
		s.work.Go(func() { s.serveConn(conn) })
	}
}

func (s *Server) serveConn(conn net.Conn) {
	defer conn.Close()
	w := &Writer{Network: "tcp", Closed: s.closed, from: conn.RemoteAddr(), tcp: conn, mu: new(sync.Mutex)}
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		buf := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, buf); err != nil {
			return
		}
		req := new(dns.Msg)
		if req.Unpack(buf) != nil {
			return
		}
		s.note(req, conn.RemoteAddr())
		s.work.Go(func() { s.config.TCP(w, req) })
	}
}

func (s *Server) note(req *dns.Msg, from net.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, Asked{Req: req, Network: from.Network(), From: netip.MustParseAddrPort(from.String())})
}

// Asked lists the questions for name, in any case; "" is all.
func (s *Server) Asked(name string) (out []Asked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if name == "" || len(a.Req.Question) == 1 && strings.EqualFold(a.Req.Question[0].Name, dns.Fqdn(name)) {
			out = append(out, a)
		}
	}
	return out
}

// Connections is how many connections there have been.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}
