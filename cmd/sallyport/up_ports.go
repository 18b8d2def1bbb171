package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// lowestPort is the first of the ports that `up` looks among: below it are those of programs that have one of their own.
const lowestPort = 11000

// freePorts fills in numbers of ports of the loopback that nobody has now, by TCP or UDP, all different. They are below those that the kernel gives to whoever
// does not say which (ip(7), ip_local_port_range): of these somebody else may have one before the proxy listens there, and then the proxy never would.
func freePorts(to ...*string) error {
	given := map[int]bool{}
	for _, p := range to {
		port, err := freePort(given)
		if err != nil {
			return err
		}
		given[port], *p = true, strconv.Itoa(port)
	}
	return nil
}

func freePort(given map[int]bool) (int, error) {
	below := kernelsFirstPort()
	if below <= lowestPort { // all are the kernel's to give: what somebody has is told by trying it
		below = 1 << 16
	}
	for range 200 {
		if port := lowestPort + rand.IntN(below-lowestPort); !given[port] && isFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("200 ports between %d and %d are taken", lowestPort, below)
}

// isFree says whether nobody has a port.
func isFree(port int) bool {
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	tcp, err := net.Listen("tcp", at)
	if err != nil {
		return false
	}
	udp, err := net.ListenPacket("udp", at)
	if err == nil {
		err = udp.Close()
	}
	return errors.Join(err, tcp.Close()) == nil
}

// kernelsFirstPort is the first port that the kernel gives by itself.
func kernelsFirstPort() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if fields := bytes.Fields(text); err == nil && len(fields) > 0 {
		if first, err := strconv.Atoi(string(fields[0])); err == nil {
			return first
		}
	}
	return 32768
}
