package freeport

import (
	"sync"
	"testing"
)

// What is given is given once.
func TestPort(t *testing.T) {
	var mu sync.Mutex
	given := map[int]bool{}
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			port, err := Port()
			if err != nil {
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
}
