// Package freeport gives tests ports for programs that they start and tell where to listen: what sidecar/supervise/port finds free, and a test process that has one keeps all
// others off it.
package freeport

import (
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/sallyport/sallyport/sidecar/supervise/port"
)

var (
	mu   sync.Mutex
	held = map[int]net.Listener{}
)

// Port is a port of the loopback, free by TCP and UDP, that nobody else is given for as long as this process lives.
func Port() (int, error) {
	return port.Free(keep)
}

// Addr is such a port's address, as programs are told it.
func Addr() (string, error) {
	port, err := Port()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// keep has the port for this process, by a name (unix(7), abstract) that the kernel gives back when it ends, however it does.
func keep(port int) bool {
	mu.Lock()
	defer mu.Unlock()
	l, err := net.Listen("unix", fmt.Sprintf("@sallyport-port-%d", port))
	if err == nil {
		held[port] = l
	}
	return err == nil
}
