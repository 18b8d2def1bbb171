package freeport

import (
	"net"
	"sync"
	"testing"
)

// What is given is given once, below what the kernel gives away, and can be listened at.
func TestPort(t *testing.T) {
	var mu sync.Mutex
	given := map[int]bool{}
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			port, err := Port()
			if err != nil || port >= ephemeral() && ephemeral() > lowest {
				t.Errorf("port %d, %v", port, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if given[port] {
				t.Errorf("port %d is given twice", port)
			}
			given[port] = true
		})
	}
	asking.Wait()
}

// Another process that finds the port free does not take it.
func TestPortIsKept(t *testing.T) {
	port, err := Port()
	if err != nil {
		t.Fatal(err)
	}
	if keep(port) {
		t.Errorf("port %d can be had twice", port)
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if free(port) {
		t.Errorf("port %d is free, though somebody listens there", port)
	}
}
