package dnsproxy

import (
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// openForPod opens sockets as a node's agent does in the network of a pod, which is another one each time.
func openForPod(t *testing.T, s *Server) net.PacketConn {
	t.Helper()
	packets, _ := openSockets(t, s)
	return packets
}

// openBoth gives the addresses of both.
func openBoth(t *testing.T, s *Server) (packets, streams net.Addr) {
	t.Helper()
	udp, tcp := openSockets(t, s)
	return udp.LocalAddr(), tcp.Addr()
}

func openSockets(t *testing.T, s *Server) (net.PacketConn, net.Listener) {
	t.Helper()
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	streams, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pod := Asker{Namespace: "shop", Name: packets.LocalAddr().String()}
	if _, err := s.Open("resolver", pod, packets, streams); err != nil {
		t.Fatal(err)
	}
	return packets, streams
}

// TestSocketsOfPodsAreSmall: a node's agent opens two for each pod, which wait nearly always; and they answer.
func TestSocketsOfPodsAreSmall(t *testing.T) {
	const sockets, most = 100, 40 << 10 // bytes of the heap and of stacks for each, which the race detector doubles; the rooms of datagrams are held to by themselves (package datagram)
	s := serve(t, Config{})
	held := func() int64 {
		var m runtime.MemStats
		runtime.GC() // what waits to be finalized goes with the second
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	asks := func(packets net.PacketConn) {
		if _, _, err := (&dns.Client{Timeout: time.Minute}).Exchange(new(dns.Msg).SetQuestion("none.test.", dns.TypeA), packets.LocalAddr().String()); err != nil {
			t.Fatal(err)
		}
	}
	asks(openForPod(t, s)) // what is made once
	before := held()
	var all []net.PacketConn
	for range sockets {
		all = append(all, openForPod(t, s))
	}
	for _, packets := range all {
		asks(packets) // it reads by now
	}
	if each := (held() - before) / sockets; each > most {
		t.Errorf("a socket takes %d bytes, want at most %d", each, most)
	}
}
