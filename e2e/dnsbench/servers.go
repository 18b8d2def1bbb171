package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/sallyport/sallyport/e2e/freeport"
)

// cacheBytes is what sallyport's cache may use, in bytes, so that memory holds all names of the run.
const cacheBytes = 64 << 20

// contender is a server in the table.
type contender struct {
	name  string
	cache bool // it resolves and keeps; otherwise it only sends back
	argv  func(b *bench, addr netip.AddrPort) ([]string, error)

	addr netip.AddrPort
	*process
}

func contenders() []*contender {
	return []*contender{
		{name: "sallyport", cache: true, argv: func(b *bench, addr netip.AddrPort) ([]string, error) {
			return []string{b.agent, "dns", "--listen", addr.String(), "--upstream", b.upstream.String(), "--cache-bytes", fmt.Sprint(cacheBytes)}, nil
		}},
		{name: "unbound", cache: true, argv: unbound},
		{name: "dnsmasq", cache: true, argv: func(b *bench, addr netip.AddrPort) ([]string, error) {
			return []string{
				"dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file=", "--no-hosts", "--no-resolv",
				"--listen-address=" + addr.Addr().String(), "--bind-interfaces", fmt.Sprint("--port=", addr.Port()),
				fmt.Sprintf("--server=%s#%d", b.upstream.Addr(), b.upstream.Port()), "--cache-size=150000", "--dns-forward-max=1000", "--log-facility=-",
			}, nil
		}},
		{name: "CoreDNS", cache: true, argv: coreDNS},
		{name: "limit: Go, one datagram a call", argv: echoServer("one")},
		{name: "limit: Go, recvmmsg", argv: echoServer("batch")},
	}
}

func echoServer(how string) func(*bench, netip.AddrPort) ([]string, error) {
	return func(b *bench, addr netip.AddrPort) ([]string, error) {
		return []string{b.self, "echo", how, addr.String()}, nil
	}
}

func unbound(b *bench, addr netip.AddrPort) ([]string, error) {
	file, err := b.file("unbound.conf", fmt.Sprintf(`server:
  interface: %[1]s
  port: %[2]d
  access-control: 127.0.0.0/8 allow
  do-daemonize: no
  do-not-query-localhost: no
  use-syslog: no
  username: ""
  chroot: ""
  pidfile: ""
  num-threads: 1
  module-config: "iterator"
  msg-cache-size: 64m
  rrset-cache-size: 128m
remote-control:
  control-enable: no
forward-zone:
  name: "."
  forward-addr: %[3]s@%[4]d
`, addr.Addr(), addr.Port(), b.upstream.Addr(), b.upstream.Port()))
	return []string{"unbound", "-d", "-p", "-c", file}, err
}

func coreDNS(b *bench, addr netip.AddrPort) ([]string, error) {
	file, err := b.file("Corefile", fmt.Sprintf(`.:%d {
  forward . %s
  cache {
    success 200000
  }
}
`, addr.Port(), b.upstream))
	return []string{b.coreDNS, "-conf", file, "-quiet"}, err
}

func (b *bench) file(name, text string) (string, error) {
	file := filepath.Join(b.dir, name)
	return file, os.WriteFile(file, []byte(text), 0o644)
}

// run starts the contender and waits until it answers.
func (b *bench) run(ctx context.Context, c *contender) error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	c.addr = addr
	argv, err := c.argv(b, c.addr)
	if err != nil {
		return err
	}
	if c.process, err = start(b.pinned(ctx, serverCore, argv...)); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if err := c.answers(); err != nil {
		c.stop()
		return fmt.Errorf("%s: %w\n%s", c.name, err, c.output.String())
	}
	return nil
}

// answers waits until the process sends something back.
func (c *contender) answers() error {
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(c.addr))
	if err != nil {
		return err
	}
	defer conn.Close()
	in, end := make([]byte, 4096), time.Now().Add(10*time.Second)
	for time.Now().Before(end) {
		select {
		case <-c.ended:
			return fmt.Errorf("ended: %v", c.cmd.ProcessState)
		default:
		}
		if _, err := conn.Write(question(nil, 1, "ready", "ready")); err == nil {
			_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			if _, err := conn.Read(in); err == nil {
				return nil
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	return fmt.Errorf("does not answer on %s", c.addr)
}

// freeAddr is a port of loopback that nobody else is given.
func freeAddr() (netip.AddrPort, error) {
	port, err := freeport.Port()
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)), err
}
