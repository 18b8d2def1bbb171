package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/sidecar/redirect"
)

// openNames answers the DNS of a pod in its own network, asked over IPv4 and, where the pod has that, over IPv6.
func (p *Pods) openNames(pod record.Workload, network string, ipv6 bool) (sockets []syscall.Conn, end func(), err error) {
	sockets, end4, err := p.openNamesAt(pod, network, "4", "127.0.0.1")
	if err != nil || !ipv6 {
		return sockets, end4, err
	}
	more, end6, err := p.openNamesAt(pod, network, "6", "::1")
	if errors.Is(err, unix.EADDRNOTAVAIL) { // its loopback interface has no such address: what is asked over IPv6 goes nowhere
		return sockets, end4, nil
	}
	if err != nil {
		end4()
		return nil, nil, err
	}
	return append(sockets, more...), func() { end4(); end6() }, nil
}

// openNamesAt does so at one address. Another agent may answer there already: who holds the node is asked.
func (p *Pods) openNamesAt(pod record.Workload, network, family, ip string) (sockets []syscall.Conn, end func(), err error) {
	var packets net.PacketConn
	var streams net.Listener
	addr := net.JoinHostPort(ip, fmt.Sprint(redirect.AmbientDNSPort))
	shared := net.ListenConfig{Control: sharePort}
	shared.SetMultipathTCP(false) // which chooseOf does not know
	if err := inside(network, func() (err error) {
		if packets, err = shared.ListenPacket(context.Background(), "udp"+family, addr); err != nil {
			return err
		}
		if streams, err = shared.Listen(context.Background(), "tcp"+family, addr); err != nil {
			return errors.Join(err, packets.Close())
		}
		return nil
	}); err != nil {
		return nil, nil, err
	}
	sockets = []syscall.Conn{packets.(syscall.Conn), streams.(syscall.Conn)}
	p.mu.Lock()
	holds := p.holds
	p.mu.Unlock()
	p.choose(sockets, holds)
	end, err = p.cfg.DNS(pod, packets, streams)
	if err != nil {
		return nil, nil, errors.Join(err, packets.Close(), streams.Close())
	}
	return sockets, end, nil
}

// choose has the kernel ask this agent, which holds the node, at sockets that it shares with another one, or that other one. Whichever has chosen
// last counts for both: who holds the node has opened its sockets before the other one, or chooses when it takes the node. Then the other one's
// sockets fall silent until it closes them.
func (p *Pods) choose(sockets []syscall.Conn, mine bool) {
	which := uint32(0)
	if mine {
		which = 1
	}
	for _, s := range sockets {
		if err := chooseOf(s, which); err != nil && !errors.Is(err, net.ErrClosed) {
			p.cfg.Log.Warn("questions are answered by both agents of the node while one takes over", "err", err)
		}
	}
}

// sharePort lets the sockets of two agents listen on one port (SO_REUSEPORT, socket(7)).
func sharePort(_, _ string, c syscall.RawConn) error {
	return control(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
}

// chooseOf has the kernel hand everything to the first (0) or second (1) of the sockets that share a port, in the order in which they were opened
// (SO_ATTACH_REUSEPORT_CBPF). Where there is no second, as when one of the two is closed, it is as without this.
func chooseOf(c syscall.Conn, which uint32) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	program := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: which}}
	return control(raw, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
}

func control(c syscall.RawConn, f func(fd int) error) error {
	var failed error
	return errors.Join(c.Control(func(fd uintptr) { failed = f(int(fd)) }), failed)
}
