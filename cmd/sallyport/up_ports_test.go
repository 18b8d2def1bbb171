package main

import "testing"

// The ports of the proxy of `up` are different ones.
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
	for _, port := range ports {
		if port == "" || seen[port] {
			t.Errorf("%q twice among %v", port, ports)
		}
		seen[port] = true
	}
}
