package port

import (
	"net"
	"testing"
)

// What is given is below what the kernel gives away, and is what may be taken.
func TestFree(t *testing.T) {
	refused := 0
	for range 50 {
		port, err := Free(func(port int) bool {
			if port%2 == 1 {
				refused++
			}
			return port%2 == 0
		})
		if err != nil || port%2 == 1 || port < lowest || port >= end() {
			t.Errorf("port %d, %v", port, err)
		}
	}
	if refused == 0 {
		t.Error("no odd port came up")
	}
}

// A port that somebody has, by UDP alone too, is not free.
func TestPortsThatSomebodyHas(t *testing.T) {
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = udp.Close() }()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	for _, port := range []int{udp.LocalAddr().(*net.UDPAddr).Port, tcp.Addr().(*net.TCPAddr).Port} {
		if isFree(port) {
			t.Errorf("port %d is free, though somebody listens there", port)
		}
	}
}
