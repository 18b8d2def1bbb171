package outside

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// Sockets is a place to listen: a host in a namespace, or Loopback.
type Sockets interface {
	Listen(addr string) (net.Listener, error)
	ListenPacket(addr string) (net.PacketConn, error)
}

// Loopback listens in the namespace that the program runs in.
type Loopback struct{}

// Listen opens a TCP listener.
func (Loopback) Listen(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }

// ListenPacket opens a UDP socket.
func (Loopback) ListenPacket(addr string) (net.PacketConn, error) {
	return net.ListenPacket("udp", addr)
}

// Plan says who the outside is. A port of 0 stands for any port that is free on all addresses.
type Plan struct {
	Names               []string // that servers have certificates for
	Addrs               []netip.Addr
	HTTPPort, HTTPSPort uint16
	NameServer          netip.AddrPort
}

// Outside is the running outside.
type Outside struct {
	*Servers
	*Authority
	CA *CA

	HTTPPort, HTTPSPort uint16
	NameServer          netip.AddrPort
}

// Start starts everything; on an error nothing is left running.
func Start(at Sockets, plan Plan) (*Outside, error) {
	ca, err := NewCA()
	if err != nil {
		return nil, err
	}
	plain, err := listenAll(at, plan.Addrs, plan.HTTPPort)
	if err != nil {
		return nil, err
	}
	secure, err := listenAll(at, plan.Addrs, plan.HTTPSPort)
	if err != nil {
		return nil, errors.Join(err, closeAll(plain))
	}
	udp, tcp, err := listenBoth(at, plan.NameServer)
	if err != nil {
		return nil, errors.Join(err, closeAll(plain), closeAll(secure))
	}
	return &Outside{
		CA: ca, Servers: StartServers(ca, plan.Names, plain, secure), Authority: StartAuthority(udp, tcp),
		HTTPPort: addrPort(plain[0].Addr()).Port(), HTTPSPort: addrPort(secure[0].Addr()).Port(),
		NameServer: addrPort(tcp.Addr()),
	}, nil
}

// Close ends everything.
func (o *Outside) Close() error { return errors.Join(o.Servers.Close(), o.Authority.Close()) }

// portTries is how often another free port is tried when one is free on the first address only.
const portTries = 20

func listenAll(at Sockets, addrs []netip.Addr, port uint16) ([]net.Listener, error) {
	var err error
	for range portTries {
		var all []net.Listener
		want := port
		for _, addr := range addrs {
			var l net.Listener
			if l, err = at.Listen(net.JoinHostPort(addr.String(), strconv.Itoa(int(want)))); err != nil {
				break
			}
			all = append(all, l)
			want = addrPort(l.Addr()).Port()
		}
		if err == nil {
			return all, nil
		}
		err = errors.Join(err, closeAll(all))
		if port != 0 {
			break
		}
	}
	return nil, fmt.Errorf("listening outside: %w", err)
}

// listenBoth opens UDP and TCP on the same port.
func listenBoth(at Sockets, addr netip.AddrPort) (net.PacketConn, net.Listener, error) {
	var err error
	for range portTries {
		var tcp net.Listener
		if tcp, err = at.Listen(addr.String()); err != nil {
			break
		}
		var udp net.PacketConn
		if udp, err = at.ListenPacket(tcp.Addr().String()); err == nil {
			return udp, tcp, nil
		}
		err = errors.Join(err, tcp.Close())
		if addr.Port() != 0 {
			break
		}
	}
	return nil, nil, fmt.Errorf("listening for DNS outside: %w", err)
}

func closeAll(listeners []net.Listener) error {
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
