package main

import (
	"strconv"

	"github.com/sallyport/sallyport/sidecar/supervise/port"
)

// freePorts fills in numbers of ports of the loopback that nobody has now, all different. The kernel gives none of them to somebody else before the proxy listens there.
func freePorts(to ...*string) error {
	given := map[int]bool{}
	for _, p := range to {
		free, err := port.Free(func(port int) bool { return !given[port] })
		if err != nil {
			return err
		}
		given[free], *p = true, strconv.Itoa(free)
	}
	return nil
}
