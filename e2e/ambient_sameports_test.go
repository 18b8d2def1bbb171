package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// The ports that the kernel may pick in the pod, and the port of its server there. A client outside of the mesh takes every second one, as the kernel does at first.
// They are above those that the kernel gives elsewhere: what the node itself has open has none of them.
const (
	samePortsFrom, samePorts = 61000, 32
	samePortsServer          = 9685
)

// samePorts holds that a client's connections to a pod are its own, whatever ports the node's proxy has picked for those that it makes to the app with the client's address:
// all of the client's are open at once, and the proxy has the same ones to pick from.
func (a *ambientNode) samePorts(t *testing.T) {
	const setting = "net.ipv4.ip_local_port_range"
	was, err := a.beta.host.Run(a.ctx, 0, "sysctl", "-n", setting)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.beta.host.Run(a.ctx, 0, "sysctl", "-w", fmt.Sprintf("%s=%d %d", setting, samePortsFrom, samePortsFrom+2*samePorts-1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := a.beta.host.Run(context.WithoutCancel(a.ctx), 0, "sysctl", "-w", setting+"="+strings.TrimSpace(string(was))); err != nil {
			t.Error(err)
		}
	})
	to := netip.AddrPortFrom(a.beta.addr, samePortsServer)
	l, err := a.beta.host.Listen(to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var mu sync.Mutex
	seen := map[uint16]bool{} // ports that the app's clients have
	go echoesTo(l, func(client netip.AddrPort) {
		mu.Lock()
		defer mu.Unlock()
		seen[client.Port()] = true
	})
	var open sync.WaitGroup
	var all sync.WaitGroup
	failed := make([]error, samePorts)
	open.Add(samePorts)
	for i := range samePorts {
		all.Go(func() {
			c, err := a.echoFrom(netip.AddrPortFrom(nodeAddr, uint16(samePortsFrom+2*i)), to)
			open.Done()
			if err == nil {
				open.Wait()
				err = errors.Join(echoes(c), c.Close())
			}
			failed[i] = err
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Error(err)
	}
	same := 0
	for i := range samePorts {
		if seen[uint16(samePortsFrom+2*i)] {
			same++
		}
	}
	if t.Logf("of %d ports, the proxy picked %d that the client had taken", samePorts, same); same == 0 {
		t.Error("no port was the same: that shows nothing")
	}
}

// echoFrom opens a connection from a port of the node to a server that sends back what it is sent, and tries it.
func (a *ambientNode) echoFrom(from, to netip.AddrPort) (c net.Conn, err error) {
	err = a.node.Host.Do(func() (err error) {
		d := net.Dialer{Timeout: time.Minute, LocalAddr: net.TCPAddrFromAddrPort(from)}
		c, err = d.DialContext(a.ctx, "tcp4", to.String())
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := echoes(c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// echoesTo serves, and tells of clients.
func echoesTo(l net.Listener, from func(netip.AddrPort)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		from(c.RemoteAddr().(*net.TCPAddr).AddrPort())
		go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
	}
}
