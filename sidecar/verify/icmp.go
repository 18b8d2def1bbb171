package verify

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

var icmpWay = Way{Name: "icmp", About: "ICMP echo (ping)", Needs: "--target-ip ADDR", Direct: true, try: func(ctx context.Context, e *Env) []Result {
	return each(e.Addrs, func(a netip.Addr) []Result { return []Result{e.ping(ctx, a)} })
}}

// ping sends one echo request (RFC 792, RFC 4443). Without the right to open a raw socket, the kernel may let this user ping
// all the same (net.ipv4.ping_group_range).
func (e *Env) ping(ctx context.Context, to netip.Addr) Result {
	r := Result{Tried: "ping " + to.String()}
	c, raw, err := pingSocket(to)
	if err != nil {
		r.Needs = "--user 0"
		return r.conclude(Skipped, "this user may open no socket for it (%s); one with NET_RAW may", cause(err))
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	defer stop()
	if err := c.SetDeadline(time.Now().Add(e.Wait)); err != nil {
		return r.conclude(Unclear, "%v", err)
	}
	id := os.Getpid() & 0xffff
	packet, err := echo(to, id)
	if err != nil {
		return r.conclude(Unclear, "%v", err)
	}
	var dest net.Addr = &net.UDPAddr{IP: to.AsSlice()}
	if raw {
		dest = &net.IPAddr{IP: to.AsSlice()}
	}
	if _, err := c.WriteTo(packet, dest); err != nil {
		return r.judgeDial(err, e.Wait)
	}
	if !raw {
		id = kernelsID
	}
	return r.awaitEcho(c, to, id, e.Wait)
}

// kernelsID stands for the id that the kernel gives requests on a socket that it keeps for pings: what comes there is about them.
const kernelsID = -1

// awaitEcho waits for what belongs to the request: its echo, or an error about it.
func (r Result) awaitEcho(c *icmp.PacketConn, to netip.Addr, id int, wait time.Duration) Result {
	data := make([]byte, 1500)
	for {
		n, peer, err := c.ReadFrom(data)
		switch {
		case timedOut(err), errors.Is(err, os.ErrDeadlineExceeded):
			return r.conclude(Unclear, "no answer within %s: dropped on the way, or nobody answers this there", wait)
		case err != nil:
			return r.judgeDial(err, wait)
		}
		m, err := icmp.ParseMessage(protocolOf(to), data[:n])
		if err != nil {
			continue
		}
		from := peerIP(peer)
		switch body := m.Body.(type) {
		case *icmp.Echo:
			if from == to && (m.Type == ipv4.ICMPTypeEchoReply || m.Type == ipv6.ICMPTypeEchoReply) && len(body.Data) == len(userAgent) && (id == kernelsID || body.ID == id) {
				return r.conclude(Open, "it answered")
			}
		case *icmp.DstUnreach:
			if about(body.Data, to, id) {
				return r.conclude(Closed, "refused by %s: unreachable, code %d", from, m.Code)
			}
		}
	}
}

// about says whether an ICMP error quotes the request to the address: not another packet to it, of another way out that is tried, or of the app.
func about(quoted []byte, to netip.Addr, id int) bool {
	next, destination, header := 9, 16, 20 // where in an IPv4 header (RFC 791) they are, and how long that is
	switch {
	case to.Is6(): // RFC 8200
		next, destination, header = 6, 24, 40
	case len(quoted) > 0:
		header = int(quoted[0]&0x0f) * 4
	}
	end := destination + to.BitLen()/8
	if len(quoted) < max(header, end) || int(quoted[next]) != protocolOf(to) {
		return false
	}
	if a, ok := netip.AddrFromSlice(quoted[destination:end]); !ok || a != to {
		return false
	}
	m, err := icmp.ParseMessage(protocolOf(to), quoted[header:])
	if err != nil {
		return false
	}
	asked, is := m.Body.(*icmp.Echo)
	return is && (m.Type == ipv4.ICMPTypeEcho || m.Type == ipv6.ICMPTypeEchoRequest) && (id == kernelsID || asked.ID == id)
}

// protocolOf is the number of ICMP in the family of an address.
func protocolOf(a netip.Addr) int {
	if a.Is6() {
		return 58
	}
	return 1
}

func echo(to netip.Addr, id int) ([]byte, error) {
	m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: id, Seq: 1, Data: []byte(userAgent)}}
	if to.Is6() {
		m.Type = ipv6.ICMPTypeEchoRequest
	}
	return m.Marshal(nil)
}

// pingSocket opens a raw socket, or else one that the kernel keeps for pings.
func pingSocket(to netip.Addr) (c *icmp.PacketConn, raw bool, err error) {
	network, any := "4", "0.0.0.0"
	if to.Is6() {
		network, any = "6", "::"
	}
	protocol := map[string]string{"4": "ip4:icmp", "6": "ip6:ipv6-icmp"}[network]
	if c, err = icmp.ListenPacket(protocol, any); err == nil {
		return c, true, nil
	}
	c, err = icmp.ListenPacket("udp"+network, any)
	return c, false, err
}

func peerIP(a net.Addr) netip.Addr {
	var ip net.IP
	switch a := a.(type) {
	case *net.IPAddr:
		ip = a.IP
	case *net.UDPAddr:
		ip = a.IP
	}
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
