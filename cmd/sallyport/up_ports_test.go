package main

import (
	"net"
	"strconv"
	"testing"
)

// What the proxy of `up` is told to listen at is nothing that the kernel gives to somebody else meanwhile.
func TestPortsOfUp(t *testing.T) {
	var ports [20]string
	var to []*string
	for i := range ports {
		to = append(to, &ports[i])
	}
	if err := freePorts(to...); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, text := range ports {
		port, err := strconv.Atoi(text)
		if err != nil || seen[text] || port >= kernelsFirstPort() && kernelsFirstPort() > lowestPort {
			t.Errorf("%q among %v (%v)", text, ports, err)
		}
		seen[text] = true
	}
}

// A port that somebody has, by UDP alone too, is not free.
func TestPortsThatSomebodyHas(t *testing.T) {
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = udp.Close() }()
	if port := udp.LocalAddr().(*net.UDPAddr).Port; isFree(port) {
		t.Errorf("port %d is free, though somebody listens there by UDP", port)
	}
}
