package datagram

import (
	"net"
	"net/netip"
)

// How many datagrams a Batch takes at a time: where many ask, and at a socket that is one of hundreds, which share what they are read into.
const (
	Size  = 32
	Small = 8
)

// MaxQuestion is the largest datagram that is read, in bytes. Real questions are below 300.
const MaxQuestion = 4096

// Socket is a bound UDP socket.
type Socket struct {
	*net.UDPConn
	addr    netip.AddrPort
	control int // bytes of control messages to keep for each datagram
	v4      bool
}

// Listen binds addr. A socket on a wildcard address learns for each datagram which of our addresses it came to, and
// answers from there.
func Listen(network, addr string) (*Socket, error) {
	packets, err := net.ListenPacket(network, addr)
	if err != nil {
		return nil, err
	}
	return Of(packets.(*net.UDPConn))
}

// Of makes one of a socket that is bound already.
func Of(conn *net.UDPConn) (*Socket, error) {
	bound := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	s := &Socket{UDPConn: conn, addr: bound, v4: bound.Addr().Is4()}
	if bound.Addr().IsUnspecified() {
		s.control = controlSize
		if err := askForDestination(conn, s.v4); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return s, nil
}

// Addr is where the socket is bound.
func (s *Socket) Addr() netip.AddrPort { return s.addr }

// Reply sends one answer; control is the one of the question.
func (s *Socket) Reply(answer, control []byte, client netip.AddrPort) error {
	_, _, err := s.WriteMsgUDPAddrPort(answer, control, client)
	return err
}

// Question is one datagram. It is good until the next Read.
type Question struct {
	Message []byte
	Client  netip.AddrPort
	Control []byte // give it back to Reply
}
