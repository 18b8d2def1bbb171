// Package freeport finds ports for programs that cannot take one themselves, or cannot say which: one that a test starts, and is told where to listen.
// A port that was taken with ":0" and given back is no such port: the kernel gives it to whoever asks next, as a listener's or as a connection's own.
// These are below the range that it gives from, and a test process that has one keeps all others off it.
package freeport

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
)

// lowest is the first port of which one is given: below it are those of programs that have one of their own.
const lowest = 11000

var (
	mu   sync.Mutex
	held = map[int]net.Listener{}
)

// Port is a port of the loopback, free by TCP and UDP, that nobody else is given for as long as this process lives.
func Port() (int, error) {
	below := ephemeral()
	if below <= lowest { // all are the kernel's to give: one that somebody has is told by trying it
		below = 1 << 16
	}
	for range 200 {
		port := lowest + rand.IntN(below-lowest)
		if free(port) && keep(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("200 ports between %d and %d are taken", lowest, below)
}

// Addr is such a port's address, as programs are told it.
func Addr() (string, error) {
	port, err := Port()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// ephemeral is the first port that the kernel gives to whoever does not say which.
func ephemeral() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if fields := bytes.Fields(text); err == nil && len(fields) > 0 {
		if first, err := strconv.Atoi(string(fields[0])); err == nil {
			return first
		}
	}
	return 32768
}

// free says whether a port can be listened at.
func free(port int) bool {
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	tcp, err := net.Listen("tcp", at)
	if err != nil {
		return false
	}
	defer func() { _ = tcp.Close() }()
	udp, err := net.ListenPacket("udp", at)
	if err != nil {
		return false
	}
	_ = udp.Close()
	return true
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
