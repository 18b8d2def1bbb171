package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

// Sample is a packet that the guard did not let pass.
type Sample struct {
	Why                 string // the prefix of the rule: guarded, unknown, spoofed
	Source, Destination netip.Addr
	Protocol            uint8  // of IP: 6 is TCP, 17 UDP, 1 and 58 ICMP
	Port                uint16 // of the destination, where the protocol has ports
}

// Messages and attributes of nfnetlink_log, linux/netfilter/nfnetlink_log.h.
const (
	messagePacket = unix.NFNL_SUBSYS_ULOG << 8
	messageConfig = unix.NFNL_SUBSYS_ULOG<<8 | 1

	configCommand = 1
	configMode    = 2
	commandBind   = 1
	copyPacket    = 2

	attributePayload = 9
	attributePrefix  = 10
)

// Listen calls take with each sample until ctx ends. Samples that come faster than they are taken are lost, and it goes on.
func Listen(ctx context.Context, take func(Sample)) error {
	c, err := dialSamples()
	if err != nil {
		return err
	}
	return listen(ctx, c, take)
}

// dialSamples binds to the group, in the network namespace of the thread.
func dialSamples() (*netlink.Conn, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("samples: %w", err)
	}
	mode := make([]byte, 6) // copy range (4), copy mode, padding
	binary.BigEndian.PutUint32(mode, nodeguard.LogBytes)
	mode[4] = copyPacket
	for _, a := range []netlink.Attribute{{Type: configCommand, Data: []byte{commandBind}}, {Type: configMode, Data: mode}} {
		if err := configure(c, a); err != nil {
			return nil, errors.Join(fmt.Errorf("samples: group %d: %w (does another process listen to it?)", nodeguard.LogGroup, err), c.Close())
		}
	}
	return c, nil
}

// listen closes the connection when it ends.
func listen(ctx context.Context, c *netlink.Conn, take func(Sample)) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer func() {
		if stop() {
			_ = c.Close()
		}
	}()
	for {
		messages, err := c.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			continue
		case err != nil:
			return fmt.Errorf("samples: %w", err)
		}
		for _, m := range messages {
			if m.Header.Type != messagePacket {
				continue
			}
			if s, ok := parseMessage(m.Data); ok {
				take(s)
			}
		}
	}
}

func configure(c *netlink.Conn, a netlink.Attribute) error {
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{a})
	if err != nil {
		return err
	}
	header := []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, nodeguard.LogGroup >> 8, nodeguard.LogGroup & 0xff}
	_, err = c.Execute(netlink.Message{
		Header: netlink.Header{Type: messageConfig, Flags: netlink.Request | netlink.Acknowledge}, Data: append(header, attributes...),
	})
	return err
}

// parseMessage reads nfnetlink_log's message about a packet.
func parseMessage(data []byte) (Sample, bool) {
	if len(data) < 4 {
		return Sample{}, false
	}
	attributes, err := netlink.UnmarshalAttributes(data[4:])
	if err != nil {
		return Sample{}, false
	}
	var s Sample
	found := false
	why := ""
	for _, a := range attributes {
		switch a.Type {
		case attributePayload:
			s, found = parsePacket(a.Data)
		case attributePrefix:
			why = strings.TrimRight(string(a.Data), "\x00")
		}
	}
	s.Why = why
	return s, found
}

// parsePacket reads the headers of an IP packet, of which the rest may be cut off. Behind IPv6 extension headers it does not
// look for ports.
func parsePacket(p []byte) (Sample, bool) {
	var s Sample
	var rest []byte
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		s.Protocol = p[9]
		s.Source, s.Destination = netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
		if size := int(p[0]&15) * 4; size >= 20 && size <= len(p) && binary.BigEndian.Uint16(p[6:])&0x1fff == 0 {
			rest = p[size:]
		}
	case len(p) >= 40 && p[0]>>4 == 6:
		s.Protocol = p[6]
		s.Source, s.Destination = netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
		rest = p[40:]
	default:
		return s, false
	}
	switch s.Protocol {
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP, unix.IPPROTO_UDPLITE:
		if len(rest) >= 4 {
			s.Port = binary.BigEndian.Uint16(rest[2:])
		}
	}
	return s, true
}
